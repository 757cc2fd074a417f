// preflight: ok
const a = { b: 1 };
const words = 'x'.split(/["'`$HOME]/);
function f(s) { return /`$HOME`/.test(s); }
while (words.length > 9) /[/'"]$HOME/.exec(words.pop());
const g = (x) => x / 2;
switch (words.length) { case 1: /$HOME/.test('x'); break; default: }
class K { m() { return this } }
/$HOME/.exec(a.b / 2 + 'x');
const t = typeof /$HOME/;
