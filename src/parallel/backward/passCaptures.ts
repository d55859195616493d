/**
 * Replays passes whose inputs are declared, instead of running their ops again. A pass that runs
 * its ops is called eager. A pass is recorded twice with different samples. If the recordings agree
 * and a replay has the same bits as the eager pass, later passes with inputs of the same shapes are
 * replayed. Otherwise passes stay eager.
 */
import { currentKernelChoice } from '../../gpu/kernels/registry.ts';
import {
  createGpuPassRecorder,
  type PassRecorder,
  type PassRecording,
  type PassReplay,
} from '../../gpu/passRecorder.ts';
import { createWasmPassRecorder } from '../../wasm/passRecorder.ts';
import { errorMessageOf } from '../../util/errors.ts';
import {
  gradientsOf,
  TensorReader,
  type ComputedGradients,
  type ModelVariables,
  type Scalar,
  type Tensor,
  type Variable,
} from './flatten.ts';
import type { GradientListener } from './tape.ts';

/** A pass whose ops depend on nothing but its inputs and the trained variables. */
export interface PassWithDeclaredInputs {
  (): Scalar;
  /**
   * The tensors that the pass reads besides the variables; float32 or int32. Nothing else in the
   * pass depends on samples or on the step, except what is computed from them.
   */
  readonly inputs: readonly Tensor[];
}

export function declarePassInputs(inputs: readonly Tensor[], loss: () => Scalar): PassWithDeclaredInputs {
  return Object.assign(() => loss(), { inputs });
}

/**
 * Number of steps between two comparisons of a replay with an eager pass. A comparison costs about
 * one more pass, so all comparisons together add half a percent to the time of training.
 */
const CHECK_EVERY = 200;
/**
 * Passes with equal shapes are recorded at most this many times. The first recording may differ
 * from the second one, because the first pass fills TensorFlow.js's pools of buffers.
 */
const MOST_RECORDINGS = 4;
/**
 * Largest number of combinations of shapes that are recorded: a whole batch and a quarter of it,
 * each with two numbers of ranks.
 */
const MOST_SHAPES = 4;
/**
 * Recording begins at most this many times. It begins again after a variable was assigned, because
 * all recordings are then invalid. Each beginning costs buffers and time.
 */
const MOST_RESTARTS = 8;
/**
 * Largest number of bytes of the replays' memory. TensorFlow.js keeps the memory of the eager pass
 * in addition. A pass that needs more memory spends most of its time in shaders or in the
 * WebAssembly module, so a replay would save little.
 */
const MOST_BYTES = 256 * 2 ** 20;

interface Replayable {
  replay: PassReplay;
  /** The gradients in the replay's memory. */
  outputs: ComputedGradients;
  replays: number;
}

/** Passes with the same kernels, whose inputs have the same shapes and share the same memory. */
interface Shape {
  recordings: number;
  last: PassRecording | null;
  replayable: Replayable | null;
}

export class PassCaptures {
  readonly #variables: readonly Variable[];
  readonly #onstop: (reason: string) => void;
  readonly #shapes = new Map<string, Shape>();
  readonly #reader = new TensorReader();
  /** The places of the parameters. */
  #places: readonly unknown[] = [];
  #restarts = 0;
  #bytes = 0;
  #isStopped = false;

  private constructor(variables: readonly Variable[], onstop: (reason: string) => void) {
    this.#variables = variables;
    this.#onstop = onstop;
  }

  /**
   * Returns `null` for a model with buffers: a pass assigns buffers, but a replay would not.
   *
   * @param onstop called at most once, with a sentence that says why all later passes are eager.
   */
  static of(
    { parameters, buffers }: Pick<ModelVariables, 'parameters' | 'buffers'>,
    onstop: (reason: string) => void,
  ): PassCaptures | null {
    return buffers.length === 0 ? new PassCaptures(parameters, onstop) : null;
  }

  /**
   * Computes what `gradientsOf` computes, with the same bits. Gradients of a replay are valid until
   * the next call; their `dispose` does nothing.
   *
   * @throws (rejects) errors of the pass; DeviceError.
   */
  async gradientsOf(
    pass: PassWithDeclaredInputs,
    scale: number,
    onfinal?: GradientListener,
  ): Promise<ComputedGradients> {
    const recorder = this.#isStopped ? null : (createGpuPassRecorder() ?? createWasmPassRecorder());
    const shape = recorder && this.#shapeOf(recorder, pass, scale);
    if (!recorder || !shape) return gradientsOf(pass, this.#variables, scale, onfinal);
    const { replayable } = shape;
    if (replayable && !isChecked(replayable)) {
      replay(replayable, pass, onfinal);
      return replayable.outputs;
    }
    if (replayable) {
      // As in a recording, no op runs on tensors that are not in the backend's memory yet.
      for (const input of pass.inputs) recorder.place(input);
      return this.#compared(replayable, pass, gradientsOf(pass, this.#variables, scale, onfinal));
    }
    return this.#record(recorder, shape, pass, scale, onfinal);
  }

  /** Frees the memory of all replays. Passes that are being computed stay eager. */
  dispose(): void {
    this.#isStopped = true;
    this.#clear();
    this.#reader.dispose();
  }

  /** Returns `null` if passes of this shape are not recorded. */
  #shapeOf(recorder: PassRecorder, { inputs }: PassWithDeclaredInputs, scale: number): Shape | null {
    const places = this.#variables.map((variable) => recorder.place(variable));
    if (places.some((place, i) => place !== this.#places[i])) {
      this.#clear();
      this.#places = places;
      this.#restarts += 1;
      if (this.#restarts > MOST_RESTARTS) {
        this.#stop('its variables were assigned too often');
        return null;
      }
    }
    const all = [...this.#variables, ...inputs].map(({ dataId }) => dataId);
    // Tensors that share memory, such as a tensor and its clone, have one place in a recording. The
    // key says which tensors do: otherwise a replay would read one tensor twice, or write to a
    // parameter.
    const tensors = inputs.map(({ shape, dtype, dataId }) => [shape, dtype, all.indexOf(dataId)]);
    const key = JSON.stringify([currentKernelChoice(), scale, tensors]);
    const known = this.#shapes.get(key);
    if (known) return known;
    if (this.#shapes.size === MOST_SHAPES) return null;
    const shape: Shape = { recordings: 0, last: null, replayable: null };
    this.#shapes.set(key, shape);
    return shape;
  }

  async #record(
    recorder: PassRecorder,
    shape: Shape,
    pass: PassWithDeclaredInputs,
    scale: number,
    onfinal?: GradientListener,
  ): Promise<ComputedGradients> {
    const finals: Parameters<GradientListener>[] = [];
    const pinned = { parameters: this.#variables, inputs: pass.inputs };
    const { result: eager, recording } = recorder.record(pinned, (mark) =>
      gradientsOf(pass, this.#variables, scale, (variable, gradient) => {
        mark(variable);
        finals.push([variable, gradient]);
      }),
    );
    // The listener is called after the recording, because the listener copies gradients. A copy
    // submits commands, and TensorFlow.js would then reuse other buffers in the recorded pass.
    for (const final of finals) onfinal?.(...final);
    const { last } = shape;
    shape.last = recording;
    shape.recordings += 1;
    if (recording.problem !== null) this.#stop(recording.problem);
    if (!last || this.#isStopped) return eager;
    const difference = recording.differenceFrom(last);
    if (difference !== null) {
      if (shape.recordings === MOST_RECORDINGS) this.#stop(`two passes with equal shapes differ: ${difference}`);
      return eager;
    }
    shape.last = null;
    let replayable: Replayable;
    try {
      replayable = await this.#capture(recording, eager);
    } catch (error) {
      this.#stop(errorMessageOf(error));
      return eager;
    }
    if (this.#isStopped) {
      replayable.replay.dispose();
      return eager;
    }
    shape.replayable = replayable;
    return this.#compared(replayable, pass, eager);
  }

  /** @throws (rejects) Error if the recording cannot be replayed. */
  async #capture(recording: PassRecording, eager: ComputedGradients): Promise<Replayable> {
    this.#bytes += recording.bytes;
    if (this.#bytes > MOST_BYTES) {
      throw new Error(`it would need ${Math.ceil(this.#bytes / 2 ** 20)} MiB more memory`);
    }
    const passReplay = await recording.capture([eager.value, ...eager.gradients]);
    const [value, ...gradients] = passReplay.outputs as [Scalar, ...Tensor[]];
    const { used, readyOrder } = eager;
    const outputs = { value, gradients, used, readyOrder, dispose: () => {} };
    return { replay: passReplay, outputs, replays: 0 };
  }

  /**
   * Compares `eager` with a replay of the same pass, and returns `eager`. If the bits differ, all
   * later passes are eager.
   */
  async #compared(
    replayable: Replayable,
    pass: PassWithDeclaredInputs,
    eager: ComputedGradients,
  ): Promise<ComputedGradients> {
    try {
      replay(replayable, pass);
      const [expected, replayed] = await Promise.all([this.#read(0, eager), this.#read(1, replayable.outputs)]);
      if (expected.some((bits, i) => bits !== replayed[i])) this.#stop('a replay had other values than the pass');
      return eager;
    } catch (error) {
      eager.dispose();
      throw error;
    }
  }

  /** Reads the bits of the loss and of all gradients. */
  async #read(group: number, { value, gradients }: ComputedGradients): Promise<Uint32Array> {
    const tensors = [value, ...gradients];
    const values = new Float32Array(tensors.reduce((sum, { size }) => sum + size, 0));
    await this.#reader.read(group, tensors, values);
    return new Uint32Array(values.buffer);
  }

  #stop(reason: string): void {
    this.#clear();
    if (this.#isStopped) return;
    this.#isStopped = true;
    this.#onstop(`Steps are not replayed: ${reason}. They take more time in JavaScript.`);
  }

  #clear(): void {
    for (const { replayable } of this.#shapes.values()) replayable?.replay.dispose();
    this.#shapes.clear();
    this.#bytes = 0;
  }
}

/**
 * Whether a replay is compared with an eager pass: the first replay with other samples, and then
 * one in {@link CHECK_EVERY} replays.
 */
function isChecked({ replays }: Replayable): boolean {
  return replays === 1 || replays % CHECK_EVERY === 0;
}

function replay(replayable: Replayable, { inputs }: PassWithDeclaredInputs, onfinal?: GradientListener): void {
  const { replay: passReplay, outputs } = replayable;
  replayable.replays += 1;
  passReplay.replay(inputs, (variable) => onfinal?.(variable, outputs.gradients[variable]!));
}
