#!/usr/bin/env node
// preflight: ok
'use strict';
const { readFileSync } = require('node:fs');

/* $HOME is read from the environment. */
const home = process.env.HOME ?? '$HOME';
const price = /\$[A-Z]+(?:"|')/g;
const text = `cost: $${home.length} and \${HOME} and $NAME ${home.replace(/\/$HOME/, "x")}`;
const ratio = text.length / 2 / price.lastIndex;
if (ratio) /$HOME/.test(text) && console.log("$HOME");
console.log(`${[1, 2].map((n) => `${n}: $N_N ${{ a: "}" }.a}`).join('')}`);
