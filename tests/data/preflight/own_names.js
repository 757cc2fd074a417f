// preflight: ok
const $BODY = globalThis.document?.body;
let $COUNT = 0;
function $ON(event, $HANDLER = () => {}) {
  $COUNT += 1;
  return { $SET: event, handler: $HANDLER };
}
const update = { $SET: { a: 1 }, $INC: { b: 1 } };
$ON('x', $BODY);
module.exports = { update, $EXPORTED: $BODY };
