NODE
// preflight: 1 NODE
console.log('the rest of a here-document');
