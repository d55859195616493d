/**
 * `elastic`: jobs whose ranks join and leave, in the style of `hvd.elastic.run` and torchelastic.
 */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import { locateRoom, openRoomSurroundings } from '../room.ts';
import { ElasticJob, type ElasticOptions } from './elasticJob.ts';
import type { ElasticState } from './elasticState.ts';

/**
 * Joins or opens a room and calls `main` with a process group of its ranks. When ranks join or
 * leave, `main` ends with the group's error, and is called again with a new group and with the
 * newest commit of `state`.
 *
 * Before each call, ranks elect the newest commit: the one with the most steps. Ranks without it
 * receive it. If no rank has committed, ranks receive the initial state of rank 0. The work after
 * the elected commit is repeated. A closed tab therefore costs at most the step in which it was
 * closed, if `main` commits after every step.
 *
 * `main` must continue from the position in the state, as in the example, and stop when a
 * collective rejects. The end of `main` commits the state. The job ends when `main` has ended on
 * all ranks. Their states must then be equal.
 *
 * @param options `nodes` is needed to open a room; by default, `server` and `room` are those of the
 *   page's address. `signal` makes this rank leave; the others continue.
 * @returns the result of this rank's last call of `main`.
 * @throws (rejects) the error of `main` if it is not caused by a change of the ranks. The job then
 *   ends on all ranks, and the others reject with RunOverError. DeviceError if this rank's GPU is
 *   lost. MismatchError if this rank's model or state differs from those of the other ranks. In
 *   both cases, the others continue without this rank. RunOverError if the job ended before this
 *   rank took part, or while this rank had lost its place in the room. If the rank has a result, it
 *   resolves with the result instead. TimeoutError if too few ranks were present for `timeoutMs`.
 *   AbortError if the signal is aborted. UsageError and SignalingError as with `initProcessGroup`.
 *   After every error, this rank has left the room.
 *
 * @example
 * ```ts
 * const sampler = new ElasticSampler(xs.shape[0]);
 * const load = (indices: Int32Array) => tf.gather(xs, indices);
 * const loader = new DataLoader(load, { sampler, batchSize: 32 });
 * const state = new ElasticState({ model, optimizer: tf.train.adam(1e-3), sampler, epoch: 0 });
 * await elastic({ nodes: { min: 2, max: 8 } }, state, async (state, group) => {
 *   const ddp = await DistributedDataParallel.create(state.model, group);
 *   try {
 *     for (; state.epoch < 5; state.epoch++) {
 *       state.sampler.setEpoch(state.epoch);
 *       for await (const batch of loader) {
 *         batch.dispose(); // after ddp.backward and ddp.step(state.optimizer)
 *         state.sampler.recordBatch(32);
 *         await state.commit();
 *       }
 *     }
 *   } finally {
 *     ddp.dispose();
 *   }
 * });
 * ```
 */
export async function elastic<State extends ElasticState, Result>(
  options: ElasticOptions,
  state: State,
  main: (state: State, group: ProcessGroup) => Promise<Result>,
): Promise<Result> {
  return new ElasticJob(await locateRoom(options), state, main, await openRoomSurroundings(options.device)).run();
}
