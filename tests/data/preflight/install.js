// preflight: 2 npm
npm install express
const express = require('express');
