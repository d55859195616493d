/**
 * Sends and receives messages between two ranks. As in `functionalCollectives.ts`, received values
 * are returned in new tensors or arrays.
 */
import type { MessageOptions } from '../collectives/options.ts';
import type { ProcessGroup } from '../collectives/processGroup.ts';
import {
  emptyArgumentPayloadOf,
  argumentPayloadOf,
  type FunctionalCollectiveOptions,
  type ResultOf,
  type Values,
} from './payload.ts';

/**
 * Sends `values` to rank `dst`. Resolves when that rank has called a function that receives the
 * values, and all data have been sent.
 *
 * @example
 * ```ts
 * if (group.rank === 0) await send(xs, 1, group);
 * else if (group.rank === 1) await recv(xs, 0, group); // xs has the shape and dtype
 * ```
 */
export async function send(
  values: Values,
  dst: number,
  group: ProcessGroup,
  options: FunctionalCollectiveOptions<MessageOptions> = {},
): Promise<void> {
  const input = argumentPayloadOf(values, 'send', group);
  await group.send(input.array, dst, { ...options, ...input.options });
}

/**
 * Resolves with the values that rank `src` sends.
 *
 * @param like a tensor or array with the shape and dtype of the message; its values are not used.
 * @throws (rejects) MismatchError, which ends the group, if the message has a different dtype or
 *   number of elements.
 */
export async function recv<V extends Values>(
  like: V,
  src: number,
  group: ProcessGroup,
  options: FunctionalCollectiveOptions<MessageOptions> = {},
): Promise<ResultOf<V>> {
  const output = emptyArgumentPayloadOf(like, 'recv', group);
  await group.recv(output.array, src, { ...options, ...output.options });
  return output.wrap(output.array) as ResultOf<V>;
}

/**
 * Does the same as {@link recv}, but receives from the first rank that sends (torch: `recv` with
 * `src=None`).
 *
 * @returns the values, and the rank that sent them.
 */
export async function recvAny<V extends Values>(
  like: V,
  group: ProcessGroup,
  options: FunctionalCollectiveOptions<MessageOptions> = {},
): Promise<{ values: ResultOf<V>; src: number }> {
  const output = emptyArgumentPayloadOf(like, 'recv', group);
  const src = await group.recv(output.array, null, { ...options, ...output.options });
  return { values: output.wrap(output.array) as ResultOf<V>, src };
}
