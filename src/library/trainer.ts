/**
 * `Trainer` trains a model on tensors in several tabs, by a chosen strategy. It follows PyTorch
 * Lightning's Trainer (https://lightning.ai/docs/pytorch/stable/common/trainer.html), with
 * TensorFlow.js's names of losses and callbacks.
 */
import type * as tf from '@tensorflow/tfjs';
import { Mesh } from '../collectives/mesh.ts';
import { ProcessGroup } from '../collectives/processGroup.ts';
import type { Model } from '../parallel/backward/flatten.ts';
import type { EngineEvent } from '../protocol/events.ts';
import type { RunResult } from '../protocol/runResult.ts';
import { whyPlanCannotRun, parsePlan, type TrainingPlan } from '../spec/plan.ts';
import { runAndAbortGroupOnSignal } from '../parallel/groups/abortGroupOnSignal.ts';
import { systemClock } from '../util/clock.ts';
import { asError, UsageError } from '../util/errors.ts';
import { currentDevice, prepareDevice, watchCurrentGpu } from './device.ts';
import { destroyProcessGroup, initProcessGroup, type InitProcessGroupOptions } from './initProcessGroup.ts';
import { roomCodeInAddress } from './pageRoom.ts';
import { thisPage } from './thisPage.ts';
import { createTensorTask, type FitOptions, type Samples } from '../engine/tasks/tensorTask.ts';
import { ReplicaStep } from '../engine/training/replicaStep.ts';
import { TrainingLoop } from '../engine/training/trainingLoop.ts';
import { countTransports } from '../engine/membership/transport.ts';

export interface TrainerOptions extends Partial<TrainingPlan> {
  /**
   * Number of tabs. Every tab runs the same page. Default: the room's number of tabs, or this tab
   * alone if there is no room. A room with a different number of tabs refuses this tab.
   */
  tabs?: number | undefined;
  /** Address of the signaling server. Default: the page's server. */
  server?: string | undefined;
  /**
   * The room's code. Default: the code in the page's address (`#K7F3QX`, in capitals). If the
   * address has no code and `tabs` is more than 1, a room for `tabs` tabs is opened. Its code is
   * added to the address, so that other tabs can be opened with this address.
   */
  room?: string | undefined;
  /** How tabs of one browser are linked; see {@link initProcessGroup}. */
  transport?: InitProcessGroupOptions['transport'] | undefined;
  /**
   * Which device computes; see {@link initProcessGroup}. A model that exists before `fit` stays on
   * its backend, so call {@link openDevice} before the model is built.
   */
  device?: InitProcessGroupOptions['device'] | undefined;
  /**
   * A process group to train in, instead of tabs and a room. Trainer does not destroy the group,
   * but if `fit` fails, it aborts the group for all ranks.
   */
  group?: ProcessGroup | undefined;
  /**
   * Called with the room's code when this tab has entered the room; see {@link initProcessGroup}.
   */
  onroom?: InitProcessGroupOptions['onroom'] | undefined;
  /** Called when tabs have entered or left the room; see {@link initProcessGroup}. */
  onmembers?: InitProcessGroupOptions['onmembers'] | undefined;
  /**
   * Early stopping, like Keras's EarlyStopping: `fit` stops after this many evaluations without a
   * lower held-out loss. `null` (the default): no early stopping. After early stopping, the model
   * keeps the weights of the final step. `best` in the result names the step with the lowest loss.
   */
  patience?: number | null;
  callbacks?: tf.CustomCallbackArgs | readonly tf.CustomCallbackArgs[];
}

/**
 * Trains a model in a given number of tabs with a strategy.
 *
 * @example
 * ```ts
 * const trainer = new Trainer({ tabs: 4, epochs: 5, optimizer: 'adam', learningRate: 0.001 });
 * await trainer.fit(model, { xs, ys }, { loss: 'meanSquaredError' });
 * ```
 */
export class Trainer {
  readonly #world: Pick<
    TrainerOptions,
    'tabs' | 'server' | 'room' | 'transport' | 'device' | 'group' | 'onroom' | 'onmembers'
  >;
  readonly #plan: TrainingPlan;
  readonly #callbacks: readonly tf.CustomCallbackArgs[];

  /**
   * @throws UsageError if an option is out of its range, or the strategy is not supported between
   *   tabs.
   */
  constructor(options: TrainerOptions = {}) {
    const { tabs, server, room, transport, device, group, onroom, onmembers, callbacks = [], ...plan } = options;
    this.#world = { tabs, server, room, transport, device, group, onroom, onmembers };
    this.#plan = parsePlan(plan);
    this.#callbacks = Array.isArray(callbacks)
      ? (callbacks as readonly tf.CustomCallbackArgs[])
      : [callbacks as tf.CustomCallbackArgs];
    if (this.#plan.measure === 'methods') {
      throw new UsageError('A Trainer cannot measure methods. Measure them in a room, or remove the option measure.');
    }
    if (group && (tabs !== undefined || room !== undefined)) {
      throw new UsageError(
        'A Trainer cannot have a group together with tabs or a room. Pass only group, or only tabs and room.',
      );
    }
  }

  /**
   * Trains `model` in all tabs. In the end, every tab has the same parameters. Every tab must call
   * `fit` with the same model and samples, and computes its share of every batch. With `shard`,
   * each tab passes its own samples. Every call uses a new optimizer. The order of the samples
   * depends only on the seed.
   *
   * Callbacks are called on every rank: `onTrainBegin`, `onEpochBegin(epoch)`,
   * `onBatchBegin(batch, {size})`, `onBatchEnd(batch, {loss, size})`,
   * `onEpochEnd(epoch, {loss, val_loss, val_acc})`, `onTrainEnd`. `loss` and `size` refer to the
   * samples of all ranks. With a strategy that is not synchronous (docs/STRATEGIES.md), ranks train
   * independently, so `loss` and `size` refer to this rank's samples. `val_loss` and `val_acc`
   * (only for classification) refer to all held-out samples after the epoch's last step. With a
   * strategy that is not synchronous, `val_loss` and `val_acc` are only passed if all ranks have
   * the same parameters after that step. After the final epoch, this is always true.
   *
   * With `measure: 'learning-rate'`, `fit` searches for a learning rate and restores the model. The
   * result's `rateTest` has the learning rate.
   *
   * @param fit When its `signal` is aborted, `fit` ends on every rank, even while it waits for
   *   other tabs.
   * @throws (rejects) AbortError if a signal is aborted. UsageError if the samples do not fit. If
   *   data or models differ between ranks: DataError or MismatchError on the divergent ranks, and
   *   PeergradError on the other ranks. Also rejects with the errors of {@link initProcessGroup}
   *   and of the collectives.
   */
  async fit(
    model: Model,
    samples: Samples,
    { signal, ...fit }: FitOptions & Pick<InitProcessGroupOptions, 'signal'>,
  ): Promise<RunResult> {
    const task = createTensorTask(model, samples, fit);
    await prepareDevice(this.#world.device ?? 'auto');
    const { group, leave } = await this.#join(signal);
    const why = whyPlanCannotRun(this.#plan, group.worldSize);
    if (why !== null) {
      await leave();
      throw new UsageError(`The Trainer cannot use the algorithm ${this.#plan.algorithm}: ${why}. Pass ring or auto.`);
    }
    const gpu = watchCurrentGpu();
    let replica: ReplicaStep | null = null;
    try {
      const callbackEvents = new CallbackEvents(this.#callbacks);
      const options = {
        plan: this.#plan,
        clock: systemClock,
        device: currentDevice(),
        emit: (event: EngineEvent) => callbackEvents.handle(event),
      };
      replica = await ReplicaStep.prepare({ ...options, task, checkDevice: () => gpu.check() });
      const loop = new TrainingLoop(replica, options);
      return await runAndAbortGroupOnSignal(group, signal, 'fit', async () => {
        await loop.enter({ group, transport: await countTransports(group), signal: new AbortController().signal });
        await callbackEvents.begin();
        const result = await loop.run();
        await callbackEvents.end();
        return result;
      });
    } catch (error) {
      group.abort(asError(error));
      throw error;
    } finally {
      gpu.stop();
      replica?.dispose();
      await leave();
    }
  }

  async #join(signal: AbortSignal | undefined): Promise<{ group: ProcessGroup; leave: () => Promise<void> }> {
    const { group, tabs, server, room, transport = 'auto', onroom, onmembers } = this.#world;
    if (group) return { group, leave: () => Promise.resolve() };
    const isAlone = tabs === 1 && room === undefined;
    const page = isAlone ? null : await thisPage();
    const world = roomOptionsOfTrainer({ tabs, room }, page?.address?.hash ?? '');
    if (page === null || world === null) {
      const alone = new ProcessGroup(new Mesh({ rank: 0, worldSize: 1, generation: 1, links: new Map() }));
      return { group: alone, leave: () => Promise.resolve(alone.destroy()) };
    }
    const joined = await initProcessGroup({
      ...(server !== undefined && { server }),
      transport,
      device: 'current',
      ...world,
      ...(signal && { signal }),
      ...(onroom && { onroom }),
      ...(onmembers && { onmembers }),
    });
    return { group: joined, leave: () => destroyProcessGroup(joined) };
  }
}

/**
 * Returns the room to join, as options of `initProcessGroup`. Returns `null` if neither a room nor
 * several tabs are given: then this tab trains alone.
 *
 * @param hash the fragment of the page's address.
 */
export function roomOptionsOfTrainer(
  { tabs, room }: Pick<TrainerOptions, 'tabs' | 'room'>,
  hash: string,
): Pick<InitProcessGroupOptions, 'room' | 'worldSize'> | null {
  const named = room ?? (tabs === 1 ? undefined : roomCodeInAddress(hash));
  if (named === undefined && (tabs ?? 1) === 1) return null;
  return {
    ...(named === undefined ? {} : { room: named }),
    ...(tabs === undefined ? {} : { worldSize: tabs }),
  };
}

/** Calls the user's TensorFlow.js callbacks when events of the run arrive. */
class CallbackEvents {
  readonly #callbacks: readonly tf.CustomCallbackArgs[];
  #epoch = -1;
  /** Number of finished batches in the current epoch. This is also the index of the next batch. */
  #batch = 0;
  #lossSum = 0;
  #samples = 0;
  /** Results on held-out samples after the latest step. */
  #validation: tf.Logs = {};

  constructor(callbacks: readonly tf.CustomCallbackArgs[]) {
    this.#callbacks = callbacks;
  }

  async begin(): Promise<void> {
    for (const callback of this.#callbacks) await callback.onTrainBegin?.();
  }

  async handle(event: EngineEvent): Promise<void> {
    if (event.type === 'begin') return this.#beginBatch(event.epoch, event.samples);
    if (event.type === 'step') return this.#endBatch(event.loss, event.samples);
    if (event.type !== 'evaluation') return;
    const { loss, accuracy } = event;
    this.#validation = accuracy === null ? { val_loss: loss } : { val_loss: loss, val_acc: accuracy };
  }

  async end(): Promise<void> {
    await this.#endEpoch();
    for (const callback of this.#callbacks) await callback.onTrainEnd?.();
  }

  async #beginBatch(epoch: number, size: number): Promise<void> {
    if (epoch !== this.#epoch) {
      await this.#endEpoch();
      this.#epoch = epoch;
      for (const callback of this.#callbacks) await callback.onEpochBegin?.(epoch);
    }
    this.#validation = {};
    const batch = this.#batch;
    for (const callback of this.#callbacks) await callback.onBatchBegin?.(batch, { batch, size });
  }

  async #endBatch(loss: number, size: number): Promise<void> {
    const batch = this.#batch++;
    this.#lossSum += loss * size;
    this.#samples += size;
    for (const callback of this.#callbacks) await callback.onBatchEnd?.(batch, { batch, size, loss });
  }

  async #endEpoch(): Promise<void> {
    if (this.#epoch < 0) return;
    const logs = { loss: this.#lossSum / Math.max(1, this.#samples), ...this.#validation };
    [this.#batch, this.#lossSum, this.#samples] = [0, 0, 0];
    for (const callback of this.#callbacks) await callback.onEpochEnd?.(this.#epoch, logs);
  }
}
