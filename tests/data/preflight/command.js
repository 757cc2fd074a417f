// preflight: 4 node
/* Written by an agent. */

node --experimental-modules <<'NODE'
console.log(1)
