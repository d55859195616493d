/**
 * `Trainer` trains a model on tensors in several tabs, by a chosen strategy. It follows PyTorch
 * Lightning's Trainer (https://lightning.ai/docs/pytorch/stable/common/trainer.html), with
 * TensorFlow.js's names of losses and callbacks.
 */
import * as tf from '@tensorflow/tfjs';
import type { WebGPUBackend } from '@tensorflow/tfjs-backend-webgpu';
import { Mesh } from '../collectives/mesh.ts';
import { ProcessGroup } from '../collectives/processGroup.ts';
import type { Model } from '../parallel/ddp/flatten.ts';
import type { EngineEvent } from '../protocol/events.ts';
import type { RunResult } from '../protocol/runResult.ts';
import { parsePlan, type TrainingPlan } from '../spec/plan.ts';
import { parseRoomCode } from '../protocol/roomCode.ts';
import { systemClock } from '../util/clock.ts';
import { asError, UsageError } from '../util/errors.ts';
import { watchGpu } from '../engine/device/gpuErrors.ts';
import {
  destroyProcessGroup,
  initProcessGroup,
  tensorflowDevice,
  type InitProcessGroupOptions,
} from './initProcessGroup.ts';
import { createTensorTask, type FitOptions, type Samples } from '../engine/tasks/tensorTask.ts';
import { TrainingLoop } from '../engine/training/trainingLoop.ts';
import { transportOf } from '../engine/membership/transport.ts';

export interface TrainerOptions extends Partial<TrainingPlan> {
  /**
   * Number of tabs; each runs the same page. Default: as many as the room has, or this one alone
   * without a room. A room with another number refuses.
   */
  tabs?: number | undefined;
  /** Address of the signaling server (default: the page's own). */
  server?: string | undefined;
  /**
   * Room to train in. Default: the one in the page's address (`#K7F3QX`, in capitals); otherwise a
   * room is opened for `tabs` and put into the address, with which other tabs can be opened.
   */
  room?: string | undefined;
  /** How tabs of one browser are linked; see {@link initProcessGroup}. */
  transport?: InitProcessGroupOptions['transport'] | undefined;
  /**
   * A group to train in, instead of tabs and rooms. The caller keeps it; a `fit` that fails aborts
   * it for all ranks.
   */
  group?: ProcessGroup | undefined;
  /** Called with the room's code if a room was opened. */
  onroom?: ((room: string) => void) | undefined;
  /**
   * Number of evaluations without a lower held-out loss after which `fit` stops, as with Keras's
   * EarlyStopping; `null`, the default: never. The model keeps the weights of the last step; `best`
   * of the result names the step with the lowest loss.
   */
  patience?: number | null;
  callbacks?: tf.CustomCallbackArgs | readonly tf.CustomCallbackArgs[];
}

export class Trainer {
  readonly #world: Pick<TrainerOptions, 'tabs' | 'server' | 'room' | 'transport' | 'group' | 'onroom'>;
  readonly #plan: TrainingPlan;
  readonly #callbacks: readonly tf.CustomCallbackArgs[];

  /**
   * @throws UsageError if an option is out of its range, or the strategy is not supported between
   *   tabs.
   */
  constructor(options: TrainerOptions = {}) {
    const { tabs, server, room, transport, group, onroom, callbacks = [], ...plan } = options;
    this.#world = { tabs, server, room, transport, group, onroom };
    this.#plan = parsePlan(plan);
    this.#callbacks = Array.isArray(callbacks)
      ? (callbacks as readonly tf.CustomCallbackArgs[])
      : [callbacks as tf.CustomCallbackArgs];
    if (this.#plan.strategy === 'data-parallel') {
      throw new UsageError('data-parallel uses workers of the app: with Trainer, choose ddp or parameter-server.');
    }
    if (group && (tabs !== undefined || room !== undefined)) {
      throw new UsageError('A Trainer needs either a group, or tabs and a room: not both.');
    }
  }

  /**
   * Trains `model` on all tabs' GPUs; every tab ends with the same parameters. Every tab must call
   * it with the same model and samples, and computes its share of every batch. With `shard`,
   * samples are each tab's own. Every call uses the same order of samples, which depends on the
   * seed, and a new optimizer.
   *
   * Callbacks are called on every rank: `onTrainBegin`, `onEpochBegin(epoch)`, `onBatchBegin(batch,
   * {size})`, `onBatchEnd(batch, {loss, size})`, `onEpochEnd(epoch, {loss, val_loss, val_acc})`,
   * `onTrainEnd`. Loss and size are of all ranks' samples; with the strategies `local-sgd`,
   * `diloco` and `async-parameter-server`, whose ranks train independently, of this rank's.
   * `val_loss` and `val_acc` (for losses that classify) are of all held-out samples after the
   * epoch's last step; with those strategies they exist only if that step is one after which ranks
   * agree, as the last one is.
   *
   * With the schedule `range-test` it searches for a learning rate, `rateTest` of the result, and
   * restores the model.
   *
   * @throws (rejects) UsageError for samples that do not fit; if data or models differ, DataError
   *   or MismatchError on the divergent ranks and PeergradError on the others; the errors of {@link
   *   initProcessGroup} and of the collectives.
   */
  async fit(model: Model, samples: Samples, fit: FitOptions): Promise<RunResult> {
    const task = createTensorTask(model, samples, fit);
    await tf.ready();
    const { group, leave } = await this.#join();
    const gpu = tf.getBackend() === 'webgpu' ? watchGpu((tf.backend() as WebGPUBackend).device) : null;
    let run: TrainingLoop | null = null;
    try {
      const callbackEvents = new CallbackEvents(this.#callbacks);
      run = await TrainingLoop.prepare({
        plan: this.#plan,
        task,
        clock: systemClock,
        device: tensorflowDevice(),
        emit: (event) => callbackEvents.handle(event),
        checkDevice: () => gpu?.check(),
      });
      await run.enter({ group, transport: await transportOf(group), signal: new AbortController().signal });
      await callbackEvents.begin();
      const result = await run.run();
      await callbackEvents.end();
      return result;
    } catch (error) {
      group.abort(asError(error));
      throw error;
    } finally {
      gpu?.stop();
      run?.dispose();
      await leave();
    }
  }

  async #join(): Promise<{ group: ProcessGroup; leave: () => Promise<void> }> {
    const { group, tabs, server, room, transport = 'auto', onroom } = this.#world;
    if (group) return { group, leave: () => Promise.resolve() };
    // Outside a page there is no address.
    const world = worldOf({ tabs, room }, globalThis.location?.hash ?? '');
    if (world === null) {
      const alone = new ProcessGroup(new Mesh({ rank: 0, worldSize: 1, generation: 1, links: new Map() }));
      return { group: alone, leave: () => Promise.resolve(alone.destroy()) };
    }
    const joined = await initProcessGroup({
      server: server ?? location.origin,
      transport,
      ...world,
      onroom: (code) => {
        if (world.room !== undefined) return;
        // The address bar now has the address for the other tabs.
        history.replaceState(null, '', `#${code}`);
        onroom?.(code);
      },
    });
    return { group: joined, leave: () => destroyProcessGroup(joined) };
  }
}

/**
 * Returns the room to join, as options of `initProcessGroup`; `null` to train alone: neither
 * several tabs nor a room is given.
 *
 * @param hash of the page's address. Only a code in capitals, as Trainer writes it, is a room:
 *   `#header` is an anchor.
 */
export function worldOf(
  { tabs, room }: Pick<TrainerOptions, 'tabs' | 'room'>,
  hash: string,
): Pick<InitProcessGroupOptions, 'room' | 'worldSize'> | null {
  const code = hash.slice(1);
  const named = room ?? (tabs !== 1 && parseRoomCode(code) === code ? code : undefined);
  if (named === undefined && (tabs ?? 1) === 1) return null;
  return {
    ...(named === undefined ? {} : { room: named }),
    ...(tabs === undefined ? {} : { worldSize: tabs }),
  };
}

/** Calls TensorFlow.js's callbacks for a run's events. */
class CallbackEvents {
  readonly #callbacks: readonly tf.CustomCallbackArgs[];
  #epoch = -1;
  /** Number of batches of the current epoch. */
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
