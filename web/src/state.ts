// A value that views follow: the one way in which what happens outside a view draws it again.

import { useLayoutEffect, useReducer } from "preact/hooks";

/** A value and those who follow it. */
export class State<Value> {
  #value: Value;
  readonly #followers = new Set<() => void>();

  constructor(value: Value) {
    this.#value = value;
  }

  get value(): Value {
    return this.#value;
  }

  /** Sets the value; nothing is drawn again where it is the same. */
  set(value: Value): void {
    if (Object.is(value, this.#value)) return;
    this.#value = value;
    for (const follower of this.#followers) follower();
  }

  /** Changes the value by the one that is there. */
  change(change: (value: Value) => Value): void {
    this.set(change(this.#value));
  }

  /** Calls `follower` after each change; returns how to stop that. */
  follow(follower: () => void): () => void {
    this.#followers.add(follower);
    return () => this.#followers.delete(follower);
  }
}

/** The value in a view, which is drawn again when it changes. */
export function useValue<Value>(state: State<Value>): Value {
  const [, draw] = useReducer((count: number) => count + 1, 0);
  const { value } = state;
  useLayoutEffect(() => {
    // It may have changed between this drawing and now.
    if (!Object.is(state.value, value)) draw(undefined as never);
    return state.follow(() => draw(undefined as never));
  }, [state]);
  return value;
}
