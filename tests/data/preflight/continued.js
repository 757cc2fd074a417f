// preflight: 5 $STAGE
const s = 'a \
$HOME';
const r = s
  ?.[0] ?? $STAGE;
