// How far commands are trusted on this machine.

import { visible } from "../pure/text.ts";
import { trust } from "../pure/trust.ts";
import { policy } from "../shell.ts";
import { useValue } from "../state.ts";

export function Trust() {
  const now = useValue(policy);
  if (!now) return null;
  const { level, tone, sentence } = trust(now.isolation);
  return <p class="trust" id="trust" data-tone={tone}><span class="trust-level">Trust level <code>{visible(level)}</code></span> {sentence}</p>;
}
