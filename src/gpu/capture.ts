/**
 * Replays the commands of a recorded pass. The replay has its own buffers: for each buffer of the
 * recording, one of the same size. So a replay reuses buffers within the pass as the recording did.
 * Parameters keep their buffers. Inputs are written before each replay.
 */
import type { WebGpuBackend } from './backend.ts';
import { openCommandEncoder } from './backend.ts';
import type { RecordedCommand } from './recording.ts';

type Step =
  | {
      kind: 'dispatch';
      pipeline: GPUComputePipeline;
      group: GPUBindGroup;
      workgroups: readonly [number, number, number];
    }
  | { kind: 'copy'; source: GPUBuffer; target: GPUBuffer }
  | { kind: 'mark'; value: number };

/** Buffers of a recording that are also used outside of it. */
export interface PinnedBuffers {
  /** Buffers that the replay shares with the recording. */
  parameters: readonly GPUBuffer[];
  /** Buffers with the inputs of a pass, which are written before each replay. */
  inputs: readonly GPUBuffer[];
}

/**
 * Returns the first difference between two recordings as a phrase; `null` if they are equal except
 * for the identities of their buffers.
 */
export function gpuRecordingDifference(
  [first, firstPinned]: readonly [readonly RecordedCommand[], PinnedBuffers],
  [second, secondPinned]: readonly [readonly RecordedCommand[], PinnedBuffers],
): string | null {
  if (first.length !== second.length) return `the numbers of commands are ${first.length} and ${second.length}`;
  const partner = new Map<GPUBuffer, GPUBuffer>();
  const taken = new Set<GPUBuffer>();
  const isSame = (a: GPUBuffer, b: GPUBuffer): boolean => {
    if (!partner.has(a) && !taken.has(b)) {
      partner.set(a, b);
      taken.add(b);
    }
    return partner.get(a) === b && a.size === b.size;
  };
  for (const name of ['parameters', 'inputs'] as const) {
    for (const [i, buffer] of firstPinned[name].entries()) {
      if (!isSame(buffer, secondPinned[name][i]!)) return `the ${name} have other buffers`;
    }
  }
  let dispatches = 0;
  for (const [i, a] of first.entries()) {
    const b = second[i]!;
    const at = `after ${dispatches} shaders`;
    if (a.kind === 'write' && b.kind === 'write') {
      if (!isSame(a.buffer, b.buffer)) return `${at}, values are written to another buffer`;
      if (!areEqual(a.bytes, b.bytes)) return `${at}, values that the pass computes on the CPU changed`;
    } else if (a.kind === 'dispatch' && b.kind === 'dispatch') {
      if (a.pipeline !== b.pipeline) return `${at}, another shader runs`;
      if (a.workgroups.some((count, axis) => count !== b.workgroups[axis]))
        return `${at}, a shader has another number of workgroups`;
      const isBound = a.bindings.every(({ buffer }, index) => isSame(buffer, b.bindings[index]!.buffer));
      if (!isBound) return `${at}, a shader has other inputs`;
      dispatches += 1;
    } else if (a.kind !== 'mark' || b.kind !== 'mark' || a.value !== b.value) return `${at}, the order changed`;
  }
  return null;
}

function areEqual(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((byte, i) => byte === b[i]);
}

/** Returns how many bytes of buffers a replay of `commands` needs, including its inputs. */
export function replayBytes(commands: readonly RecordedCommand[], { parameters }: PinnedBuffers): number {
  const buffers = new Set<GPUBuffer>();
  for (const command of commands) {
    if (command.kind === 'write') buffers.add(command.buffer);
    else if (command.kind === 'dispatch') for (const { buffer } of command.bindings) buffers.add(buffer);
  }
  for (const buffer of parameters) buffers.delete(buffer);
  return [...buffers].reduce((sum, { size }) => sum + size, 0);
}

/** A recorded pass that can be replayed. */
export class CapturedPass {
  readonly #backend: WebGpuBackend;
  readonly #steps: Step[] = [];
  readonly #inputs: readonly GPUBuffer[];
  readonly #buffers = new Map<GPUBuffer, GPUBuffer>();
  readonly #constants: GPUBuffer[] = [];

  /** @throws Error if the pass reads a buffer that it has not written and that is not pinned. */
  constructor(backend: WebGpuBackend, commands: readonly RecordedCommand[], { parameters, inputs }: PinnedBuffers) {
    this.#backend = backend;
    for (const buffer of parameters) this.#buffers.set(buffer, buffer);
    this.#inputs = inputs.map((input) => this.#own(input));
    const written = new Set([...parameters, ...inputs]);
    const uniforms = new Map<GPUBuffer, GPUBuffer>();
    const constantOf = new Map<string, GPUBuffer>();
    const outputs = outputsOf(commands);
    for (const command of commands) {
      if (command.kind === 'mark') this.#steps.push(command);
      else if (command.kind === 'write') {
        const { buffer, bytes } = command;
        const isUniform = (buffer.usage & GPUBufferUsage.UNIFORM) !== 0;
        if (isUniform) {
          const key = `${buffer.size}:${bytes.join()}`;
          const constant = constantOf.get(key) ?? this.#constant(buffer, bytes);
          constantOf.set(key, constant);
          uniforms.set(buffer, constant);
        } else if (outputs.get(buffer) === 1) {
          // No other command writes to this buffer, so its values are written only once, here.
          backend.queue.writeBuffer(this.#own(buffer), 0, bytes as Uint8Array<ArrayBuffer>);
        } else {
          this.#steps.push({ kind: 'copy', source: this.#constant(buffer, bytes), target: this.#own(buffer) });
        }
        written.add(buffer);
      } else {
        const { pipeline, bindings, workgroups } = command;
        const entries = bindings.map(({ binding, buffer, offset, size }) => {
          if (binding === 0) written.add(buffer);
          if (!written.has(buffer)) {
            throw new Error('it reads a tensor that is neither a parameter nor an input');
          }
          const resource = {
            buffer: uniforms.get(buffer) ?? this.#own(buffer),
            offset,
            ...(size !== undefined && { size }),
          };
          return { binding, resource };
        });
        const group = backend.device.createBindGroup({ layout: pipeline.getBindGroupLayout(0), entries });
        this.#steps.push({ kind: 'dispatch', pipeline, group, workgroups });
      }
    }
  }

  /**
   * The replay's buffer for a buffer of the recording; `undefined` if no command uses the recorded
   * buffer.
   */
  bufferOf(recorded: GPUBuffer): GPUBuffer | undefined {
    return this.#buffers.get(recorded);
  }

  /**
   * Records the pass into TensorFlow.js's encoder.
   *
   * @param inputs the values of the inputs, each on the CPU or in a buffer.
   * @param onmark called at each mark of the recording. It may submit what was recorded so far.
   */
  replay(inputs: readonly (ArrayBufferView<ArrayBuffer> | GPUBuffer)[], onmark: (value: number) => void): void {
    const backend = this.#backend;
    let encoder = openCommandEncoder(backend);
    // Commands that are not submitted yet must still read the old inputs.
    if (inputs.some((input) => !(input instanceof GPUBuffer))) {
      backend.submitQueue();
      encoder = openCommandEncoder(backend);
    }
    for (const [i, input] of inputs.entries()) {
      const buffer = this.#inputs[i]!;
      if (input instanceof GPUBuffer) encoder.copyBufferToBuffer(input, 0, buffer, 0, buffer.size);
      else backend.queue.writeBuffer(buffer, 0, input);
    }
    let pass: GPUComputePassEncoder | null = null;
    for (const step of this.#steps) {
      if (step.kind === 'dispatch') {
        pass ??= encoder.beginComputePass();
        pass.setPipeline(step.pipeline);
        pass.setBindGroup(0, step.group);
        pass.dispatchWorkgroups(...step.workgroups);
        continue;
      }
      pass?.end();
      pass = null;
      if (step.kind === 'copy') encoder.copyBufferToBuffer(step.source, 0, step.target, 0, step.target.size);
      else {
        onmark(step.value);
        encoder = openCommandEncoder(backend);
      }
    }
    pass?.end();
  }

  /** Frees all buffers except those of the parameters. */
  dispose(): void {
    // Submits commands of the last replay that are not submitted yet, because they must not use
    // freed buffers.
    openCommandEncoder(this.#backend);
    this.#backend.submitQueue();
    for (const [recorded, buffer] of this.#buffers) if (recorded !== buffer) buffer.destroy();
    for (const buffer of this.#constants) buffer.destroy();
  }

  #own(recorded: GPUBuffer): GPUBuffer {
    const existing = this.#buffers.get(recorded);
    if (existing) return existing;
    const buffer = this.#backend.device.createBuffer({
      size: recorded.size,
      usage: recorded.usage & ~GPUBufferUsage.MAP_WRITE,
    });
    this.#buffers.set(recorded, buffer);
    return buffer;
  }

  #constant(recorded: GPUBuffer, bytes: Uint8Array): GPUBuffer {
    const { device, queue } = this.#backend;
    const buffer = device.createBuffer({ size: recorded.size, usage: recorded.usage | GPUBufferUsage.COPY_SRC });
    queue.writeBuffer(buffer, 0, bytes as Uint8Array<ArrayBuffer>);
    this.#constants.push(buffer);
    return buffer;
  }
}

/** Counts how often each buffer is written. */
function outputsOf(commands: readonly RecordedCommand[]): Map<GPUBuffer, number> {
  const counts = new Map<GPUBuffer, number>();
  const add = (buffer: GPUBuffer): void => void counts.set(buffer, (counts.get(buffer) ?? 0) + 1);
  for (const command of commands) {
    if (command.kind === 'write') add(command.buffer);
    else if (command.kind === 'dispatch') {
      for (const { binding, buffer } of command.bindings) if (binding === 0) add(buffer);
    }
  }
  return counts;
}
