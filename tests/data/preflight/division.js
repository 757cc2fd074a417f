// preflight: 5 $WIDTH
const a = 6, b = 3;
const c = (a + b) / 2;
const d = [a][0] / b;
const e = c / $WIDTH / d;
console.log(e);
