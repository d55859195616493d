/**
 * Interfaces that record and replay passes, and their implementation for TensorFlow.js's WebGPU
 * backend.
 */
import * as tf from '@tensorflow/tfjs';
import { webgpuBackend, type WebGpuBackend } from './backend.ts';
import { CapturedPass, gpuRecordingDifference, replayBytes, type PinnedBuffers } from './capture.ts';
import { runWithGpuErrorScopes } from './errorScope.ts';
import { canRecordGpuCommands, recordGpuCommands, type GpuCommandRecorder } from './recording.ts';

/** Records the ops of passes on one backend. */
export interface PassRecorder {
  /**
   * Puts a tensor into the backend's memory. The result stands for the tensor's place there: a
   * tensor keeps its place until it is assigned.
   */
  place(tensor: tf.Tensor): unknown;
  /** Runs `main`, which computes synchronously, and records it. */
  record<T>(pinned: PinnedTensors, main: (mark: (value: number) => void) => T): { result: T; recording: PassRecording };
}

/** Tensors of a pass that exist before it. */
export interface PinnedTensors {
  /** Tensors whose values the caller changes between replays. */
  parameters: readonly tf.Tensor[];
  /** Tensors that have different values in each replay. */
  inputs: readonly tf.Tensor[];
}

export interface PassRecording {
  /** Describes the first command that cannot be replayed; `null` if all can be replayed. */
  readonly problem: string | null;
  /** Number of bytes that a replay needs. */
  readonly bytes: number;
  /** Returns the first difference from a recording of the same recorder as a phrase, or `null`. */
  differenceFrom(earlier: PassRecording): string | null;
  /**
   * @param results tensors that the recorded pass computed.
   * @throws (rejects) Error if the recording cannot be replayed.
   */
  capture(results: readonly tf.Tensor[]): Promise<PassReplay>;
}

export interface PassReplay {
  /** The results, as the latest replay computed them. */
  readonly outputs: readonly tf.Tensor[];
  /**
   * @param inputs tensors with the shapes of the recorded inputs, in their order.
   * @param onmark called at each mark of the recording.
   */
  replay(inputs: readonly tf.Tensor[], onmark: (value: number) => void): void;
  /** Frees the replay's memory, and its outputs. */
  dispose(): void;
}

/** Returns `null` if WebGPU is not the current backend, or its device is not observed. */
export function createGpuPassRecorder(): PassRecorder | null {
  const backend = webgpuBackend();
  return backend && canRecordGpuCommands(backend) ? new GpuRecorder(backend) : null;
}

class GpuRecorder implements PassRecorder {
  readonly #backend: WebGpuBackend;

  constructor(backend: WebGpuBackend) {
    this.#backend = backend;
  }

  place({ dataId }: tf.Tensor): GPUBuffer {
    // Without the upload, small tensors stay on the CPU, and TensorFlow.js runs their ops there.
    this.#backend.uploadToGPU(dataId);
    return this.#backend.tensorMap.get(dataId).resource as GPUBuffer;
  }

  record<T>(
    { parameters, inputs }: PinnedTensors,
    main: (mark: (value: number) => void) => T,
  ): { result: T; recording: PassRecording } {
    const [backend, placeAll] = [this.#backend, (all: readonly tf.Tensor[]) => all.map((one) => this.place(one))];
    const pinned = { parameters: placeAll(parameters), inputs: placeAll(inputs) };
    const { result, recorder } = recordGpuCommands(backend, (active) => main((value) => active.mark(value)));
    return { result, recording: new GpuRecording(backend, recorder, pinned) };
  }
}

class GpuRecording implements PassRecording {
  readonly #backend: WebGpuBackend;
  readonly #recorder: GpuCommandRecorder;
  readonly #pinned: PinnedBuffers;

  constructor(backend: WebGpuBackend, recorder: GpuCommandRecorder, pinned: PinnedBuffers) {
    this.#backend = backend;
    this.#recorder = recorder;
    this.#pinned = pinned;
  }

  get problem(): string | null {
    return this.#recorder.problem;
  }

  get bytes(): number {
    return replayBytes(this.#recorder.commands, this.#pinned);
  }

  differenceFrom(earlier: GpuRecording): string | null {
    return gpuRecordingDifference(
      [earlier.#recorder.commands, earlier.#pinned],
      [this.#recorder.commands, this.#pinned],
    );
  }

  async capture(results: readonly tf.Tensor[]): Promise<PassReplay> {
    const backend = this.#backend;
    const buffers = results.map(({ dataId }) => backend.tensorMap.get(dataId).resource as GPUBuffer | null);
    if (!buffers.every((buffer) => buffer !== null && buffer !== undefined)) {
      throw new Error('a gradient is computed on the CPU');
    }
    const { result: capture, refused } = await runWithGpuErrorScopes(
      backend.device,
      () => new CapturedPass(backend, this.#recorder.commands, this.#pinned),
    );
    try {
      if (refused) throw new Error(`the GPU refused its buffers (${refused.message})`);
      const own = buffers.map((buffer) => capture.bufferOf(buffer));
      if (!own.every((buffer) => buffer !== undefined)) throw new Error('a gradient is computed outside of the pass');
      const outputs = results.map(({ shape }, i) =>
        tf.keep(tf.tensor({ buffer: own[i]!, zeroCopy: true }, shape, 'float32')),
      );
      return new GpuReplay(backend, capture, outputs);
    } catch (error) {
      capture.dispose();
      throw error;
    }
  }
}

class GpuReplay implements PassReplay {
  readonly #backend: WebGpuBackend;
  readonly #capture: CapturedPass;
  readonly outputs: readonly tf.Tensor[];

  constructor(backend: WebGpuBackend, capture: CapturedPass, outputs: readonly tf.Tensor[]) {
    this.#backend = backend;
    this.#capture = capture;
    this.outputs = outputs;
  }

  replay(inputs: readonly tf.Tensor[], onmark: (value: number) => void): void {
    const { tensorMap } = this.#backend;
    // TensorFlow.js caches the values that were read from these tensors. They belong to the
    // previous replay, so they are removed.
    for (const { dataId } of this.outputs) (tensorMap.get(dataId) as { values: unknown }).values = null;
    const sources = inputs.map(({ dataId }) => {
      const { resource, values } = tensorMap.get(dataId);
      return (resource as GPUBuffer | null) ?? (values as Float32Array<ArrayBuffer>);
    });
    this.#capture.replay(sources, onmark);
  }

  dispose(): void {
    tf.dispose([...this.outputs]);
    this.#capture.dispose();
  }
}
