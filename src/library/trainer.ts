/**
 * `Trainer`: say how many tabs and which strategy, hand over a model and tensors, and it does the
 * rest. In the spirit of PyTorch Lightning's Trainer
 * (https://lightning.ai/docs/pytorch/stable/common/trainer.html), with TensorFlow.js's names for
 * losses and callbacks.
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
   * Number of tabs; each runs the same page. By default as many as the room has, or this one alone
   * where there is no room. A room of another number refuses.
   */
  tabs?: number | undefined;
  /** Address of the signaling server; by default the page's own. */
  server?: string | undefined;
  /**
   * Room to train in. By default the one that the page's address names (`#K7F3QX`, in capitals);
   * without one a room is opened for `tabs` and put into the address, which then opens the other
   * tabs.
   */
  room?: string | undefined;
  /** How tabs of one browser are linked; as {@link initProcessGroup} has it. */
  transport?: InitProcessGroupOptions['transport'] | undefined;
  /**
   * A group to train in, in place of tabs and rooms: it stays the caller's, but a `fit` that fails
   * aborts it for all ranks.
   */
  group?: ProcessGroup | undefined;
  /** Called with the room's code where one was opened. */
  onroom?: ((room: string) => void) | undefined;
  /**
   * Number of tests on held-out samples without a lower loss after which `fit` stops early, as with
   * Keras's EarlyStopping; `null`, the default: never. The model keeps the weights of the last
   * step: `best` of the result names the step that tested best.
   */
  patience?: number | null;
  callbacks?: tf.CustomCallbackArgs | readonly tf.CustomCallbackArgs[];
}

export class Trainer {
  readonly #world: Pick<TrainerOptions, 'tabs' | 'server' | 'room' | 'transport' | 'group' | 'onroom'>;
  readonly #plan: TrainingPlan;
  readonly #callbacks: readonly tf.CustomCallbackArgs[];

  /**
   * @throws UsageError where an option is out of its range, or of a strategy that tabs do not have.
   */
  constructor(options: TrainerOptions = {}) {
    const { tabs, server, room, transport, group, onroom, callbacks = [], ...plan } = options;
    this.#world = { tabs, server, room, transport, group, onroom };
    this.#plan = parsePlan(plan);
    this.#callbacks = Array.isArray(callbacks)
      ? (callbacks as readonly tf.CustomCallbackArgs[])
      : [callbacks as tf.CustomCallbackArgs];
    if (this.#plan.strategy === 'data-parallel') {
      throw new UsageError(
        'data-parallel has a tab of the app start workers: with Trainer, choose ddp or parameter-server.',
      );
    }
    if (group && (tabs !== undefined || room !== undefined)) {
      throw new UsageError('A Trainer takes a group, or tabs and a room to make one from: not both.');
    }
  }

  /**
   * Trains `model` on all tabs' GPUs; every tab ends with the same parameters in it. Every tab must
   * call it with the same model and samples; each computes its share of every batch. With `shard`
   * samples are each tab's own. Every call goes through the samples in the same order, which the
   * seed gives, with a new optimizer.
   *
   * Callbacks are called on every rank: `onTrainBegin`, `onEpochBegin(epoch)`, `onBatchBegin(batch,
   * {size})`, `onBatchEnd(batch, {loss, size})`, `onEpochEnd(epoch, {loss, val_loss, val_acc})`,
   * `onTrainEnd`. Loss and size are of all ranks' samples; by the strategies `local-sgd`, `diloco`
   * and `async-parameter-server`, whose ranks learn by themselves, of this rank's. `val_loss` and
   * `val_acc` (of losses that classify) are of all held-out samples after the epoch's last step,
   * and by those strategies only there where that step is one after which all ranks agree, as the
   * run's last one is.
   *
   * With the schedule `range-test` it looks for a learning rate, which the result has as
   * `rateTest`, and leaves the model as it was.
   *
   * @throws (rejects) UsageError for samples that do not fit; where data or models differ,
   *   DataError or MismatchError on the ranks whose are not those of most, PeergradError on the
   *   others; what {@link initProcessGroup} and the collectives reject with.
   */
  async fit(model: Model, samples: Samples, fit: FitOptions): Promise<RunResult> {
    const task = createTensorTask(model, samples, fit);
    await tf.ready();
    const { group, leave } = await this.#join();
    const gpu = tf.getBackend() === 'webgpu' ? watchGpu((tf.backend() as WebGPUBackend).device) : null;
    let run: TrainingLoop | null = null;
    try {
      const teller = new CallbackTeller(this.#callbacks);
      run = await TrainingLoop.prepare({
        ...{ plan: this.#plan, task, clock: systemClock, device: tensorflowDevice() },
        emit: (event) => teller.tell(event),
        checkDevice: () => gpu?.check(),
      });
      await run.enter({ group, transport: await transportOf(group), signal: new AbortController().signal });
      await teller.begin();
      const result = await run.run();
      await teller.end();
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
      ...{ server: server ?? location.origin, transport, ...world },
      onroom: (code) => {
        if (world.room !== undefined) return;
        // What is in the address bar now opens the other tabs.
        history.replaceState(null, '', `#${code}`);
        onroom?.(code);
      },
    });
    return { group: joined, leave: () => destroyProcessGroup(joined) };
  }
}

/**
 * What to join, as `initProcessGroup` takes it, or `null` to train alone: where neither several
 * tabs nor a room is given.
 *
 * @param hash of the page's address. Only a code in capitals, as Trainer puts it there, is a room:
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

/** Turns a run's events into TensorFlow.js's callbacks. */
class CallbackTeller {
  readonly #callbacks: readonly tf.CustomCallbackArgs[];
  #epoch = -1;
  /** Batches of the current epoch. */
  #batch = 0;
  #lossSum = 0;
  #samples = 0;
  /** What held-out samples said after the latest step; of no use once another is taken. */
  #validation: tf.Logs = {};

  constructor(callbacks: readonly tf.CustomCallbackArgs[]) {
    this.#callbacks = callbacks;
  }

  async begin(): Promise<void> {
    for (const callback of this.#callbacks) await callback.onTrainBegin?.();
  }

  async tell(event: EngineEvent): Promise<void> {
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
