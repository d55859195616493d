/**
 * Creates callbacks of `fit` with TensorFlow.js's own classes, and computes the means of an epoch's
 * logs.
 */
import * as tf from '@tensorflow/tfjs';
import type { CompiledModel } from './compiledModel.ts';

type Given = tf.ModelFitArgs['callbacks'];
type Callback = Extract<Given, readonly unknown[]>[number] & Parameters<tf.CallbackList['append']>[0];

export interface CallbackArgs {
  callbacks?: Given | Callback | readonly (Callback | tf.CustomCallbackArgs)[] | undefined;
  yieldEvery?: tf.ModelFitArgs['yieldEvery'] | undefined;
}

/**
 * Creates the callbacks of a list. Its entries may be objects with functions, or instances of
 * `tf.Callback`.
 */
export function createCallbacks({ callbacks, yieldEvery }: CallbackArgs): Callback[] {
  const given = callbacks === undefined || callbacks === null ? [{}] : [callbacks].flat();
  return given.map((callback) =>
    isCallback(callback)
      ? callback
      : // TensorFlow.js yields with requestAnimationFrame, which hidden tabs never call.
        new tf.CustomCallback(withNextTask(callback), yieldEvery),
  );
}

/** Whether a callback is called for batches, so that it may stop training after a batch. */
export function isCalledOnBatches(callback: Callback): boolean {
  return (
    isCalledBeforeBatches(callback) || has(callback, 'onBatchEnd', 'batchEnd') || has(callback, 'onYield', 'yield')
  );
}

/** Whether a callback is called before each batch, so that it may set weights there. */
export function isCalledBeforeBatches(callback: Callback): boolean {
  return has(callback, 'onBatchBegin', 'batchBegin');
}

/**
 * Returns whether a callback has a function.
 *
 * @param name the function's name in a `tf.Callback`.
 * @param custom the function's name in a `tf.CustomCallback`.
 */
function has(callback: Callback, name: string, custom: string): boolean {
  if (callback instanceof tf.CustomCallback) return typeof Reflect.get(callback, custom) === 'function';
  return Reflect.get(callback, name) !== Reflect.get(tf.Callback.prototype, name);
}

/** Creates TensorFlow.js's list of callbacks, with the history as the last one. */
export function createTensorflowCallbackList(
  model: CompiledModel,
  callbacks: readonly Callback[],
  params: Readonly<Record<string, unknown>>,
): { list: tf.CallbackList; history: tf.History } {
  const history = new tf.History();
  const list = new tf.CallbackList([...callbacks, history]);
  list.setParams(params as Parameters<tf.CallbackList['setParams']>[0]);
  list.setModel(model as unknown as tf.LayersModel);
  return { list, history };
}

/**
 * The means of the logs over the batches of an epoch. Batches are weighted by their numbers of
 * samples, as in TensorFlow.js's BaseLogger.
 */
export class LogMeans {
  readonly #totals = new Map<string, number>();
  #samples = 0;

  add(logs: Readonly<Record<string, number>>, samples: number): void {
    this.#samples += samples;
    for (const [name, value] of Object.entries(logs)) {
      this.#totals.set(name, (this.#totals.get(name) ?? 0) + value * samples);
    }
  }

  get means(): Record<string, number> {
    return Object.fromEntries(Array.from(this.#totals, ([name, total]) => [name, total / this.#samples]));
  }
}

function isCallback(value: Callback | tf.CustomCallbackArgs): value is Callback {
  return 'setParams' in value;
}

/**
 * Returns an object that inherits from the callback, because the callback may be an instance of a
 * class. The object yields with {@link nextTask}, unless the callback has its own `nextFrameFunc`.
 */
function withNextTask(callback: tf.CustomCallbackArgs): tf.CustomCallbackArgs {
  const { nextFrameFunc = nextTask } = callback;
  return Object.assign(Object.create(callback) as tf.CustomCallbackArgs, { nextFrameFunc });
}

/**
 * Lets the page handle events before the promise resolves. A message is used because a hidden tab
 * runs timers only once a second, but does not delay messages.
 */
function nextTask(): Promise<void> {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(null);
  });
}
