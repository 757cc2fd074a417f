// What no source of the page may have: ways from text to markup or script, and words that a native speaker stumbles over.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "vitest";

const files = (folder: string, ending: RegExp): string[] =>
  readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((name) => ending.test(name) && !name.endsWith(".d.ts")).map((name) => join(folder, name));

const root = new URL("..", import.meta.url).pathname;
const sources = files(join(root, "src"), /\.tsx?$/);
const pages = files(join(root, "public"), /\.html$/);

test("nothing makes markup or script of text", () => {
  assert.ok(sources.length > 30);
  for (const path of sources) {
    const code = readFileSync(path, "utf8");
    for (const name of ["dangerouslySetInnerHTML", "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "DOMParser", "srcdoc", "http://", "https://", "style="]) {
      assert.ok(!code.includes(name), `${name} in ${path}`);
    }
  }
});

/** Words and phrases that mark a translation. */
const WORDS = [/\bis meant\b/i, /\bmeant\b/i, /\bmend(s|ed)?\b/i, /\bwhat holds\b/i, /\bholds\b/i, /\bwhole\b/i, /\bleft away\b/i, /\bbesides\b/i, /\bwhoever\b/i, /\bsomebody\b/i, /\btells of\b/i, /\bruns out\b/i, /\bwant in\b/i, /\bby itself\b/i];

/** The texts of a source that people can read: strings, templates and the text of elements, without comments. */
function spoken(code: string): string[] {
  const bare = code.replaceAll(/\/\*[\s\S]*?\*\//g, "").replaceAll(/^\s*\/\/.*$/gm, "").replaceAll(/^import .*$/gm, "");
  const strings = [...bare.matchAll(/"([^"\n]*)"|`([^`]*)`/g)].map(([, plain, template]) => plain ?? template ?? "");
  const elements = [...bare.matchAll(/>([^<>{}]+)</g)].map(([, words]) => words ?? "");
  return [...strings, ...elements].filter((words) => / /.test(words.trim()));
}

test("no sentence of the page has a word of the list", () => {
  let found = 0;
  for (const path of [...sources, ...pages]) {
    for (const sentence of spoken(readFileSync(path, "utf8"))) {
      found += 1;
      for (const word of WORDS) assert.ok(!word.test(sentence), `${word} in ${path}: ${sentence}`);
    }
  }
  assert.ok(found > 300, String(found));
});

test("the list finds what it is for", () => {
  const code = 'const a = "Show the whole text";\n// a whole comment\nconst b = <p>Is it meant to be so?</p>;';
  const sentences = spoken(code);
  assert.deepEqual(sentences.map((sentence) => WORDS.some((word) => word.test(sentence))), [true, true]);
});
