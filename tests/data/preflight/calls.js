// preflight: ok
node.start();
function node() {}
const echo = (x) => x; echo('x');
label: { /$HOME/.test('y') }
