/** Records the commands that a WebGPU device receives during a synchronous call. */
import { openCommandEncoder, type WebGpuBackend } from './backend.ts';

/**
 * A buffer range that a shader reads or writes. In TensorFlow.js's programs, binding 0 is the
 * output.
 */
export interface RecordedBinding {
  binding: number;
  buffer: GPUBuffer;
  offset: number;
  size: number | undefined;
}

export type RecordedCommand =
  | {
      kind: 'dispatch';
      pipeline: GPUComputePipeline;
      bindings: readonly RecordedBinding[];
      workgroups: readonly [number, number, number];
    }
  /** `bytes` were written to the start of `buffer`. */
  | { kind: 'write'; buffer: GPUBuffer; bytes: Uint8Array }
  /** A mark that the caller set between two commands; see {@link GpuCommandRecorder.mark}. */
  | { kind: 'mark'; value: number };

export class GpuCommandRecorder {
  readonly commands: RecordedCommand[] = [];
  /**
   * Describes the first command that cannot be replayed; `null` if all commands can be replayed.
   */
  problem: string | null = null;
  /** Bytes of buffers that were mapped when they were created, such as staging buffers. */
  readonly uploads = new Map<GPUBuffer, Uint8Array>();

  mark(value: number): void {
    this.commands.push({ kind: 'mark', value });
  }
}

/** For each observed device: its active recorder. */
const recorders = new WeakMap<GPUDevice, { active: GpuCommandRecorder | null }>();

/** Whether `backend` computes on a device that was prepared for {@link recordGpuCommands}. */
export function canRecordGpuCommands(backend: WebGpuBackend): boolean {
  return recorders.has(backend.device);
}

/**
 * Runs `main` and records the commands that it gives to the backend's device. The device must be
 * prepared (see {@link prepareGpuForRecording}).
 */
export function recordGpuCommands<T>(
  backend: WebGpuBackend,
  main: (recorder: GpuCommandRecorder) => T,
): { result: T; recorder: GpuCommandRecorder } {
  const slot = recorders.get(backend.device)!;
  // Only encoders that are created from now on are observed. TensorFlow.js also returns buffers to
  // its pool when it submits, so all recordings begin at the same point.
  openCommandEncoder(backend);
  backend.submitQueue();
  const recorder = new GpuCommandRecorder();
  slot.active = recorder;
  try {
    return { result: main(recorder), recorder };
  } finally {
    slot.active = null;
  }
}

/**
 * Prepares `gpu` for {@link recordGpuCommands}. Replaces methods of this device object, so it must
 * be called before the device is passed on. Idempotent.
 */
export function prepareGpuForRecording(gpu: GPUDevice): void {
  if (recorders.has(gpu)) return;
  const slot: { active: GpuCommandRecorder | null } = { active: null };
  recorders.set(gpu, slot);
  const { queue } = gpu;
  const entriesOf = new WeakMap<GPUBindGroup, RecordedBinding[]>();

  const createBindGroup = gpu.createBindGroup.bind(gpu);
  gpu.createBindGroup = (descriptor) => {
    const group = createBindGroup(descriptor);
    if (slot.active) entriesOf.set(group, [...descriptor.entries].map(bindingOf));
    return group;
  };

  const createBuffer = gpu.createBuffer.bind(gpu);
  gpu.createBuffer = (descriptor) => {
    const buffer = createBuffer(descriptor);
    if (descriptor.mappedAtCreation && slot.active) observeUnmap(buffer, slot.active);
    return buffer;
  };

  const writeBuffer = queue.writeBuffer.bind(queue);
  queue.writeBuffer = (buffer, offset, data, dataOffset = 0, size?: number) => {
    writeBuffer(buffer, offset, data, dataOffset, size);
    if (!slot.active) return;
    const { bytes, unit } = bytesOf(data);
    const start = dataOffset * unit;
    const end = size === undefined ? bytes.length : start + size * unit;
    if (offset !== 0) slot.active.problem ??= 'a buffer was written in part';
    slot.active.commands.push({ kind: 'write', buffer, bytes: bytes.slice(start, end) });
  };

  const createCommandEncoder = gpu.createCommandEncoder.bind(gpu);
  gpu.createCommandEncoder = (descriptor) => {
    const encoder = createCommandEncoder(descriptor);
    if (slot.active) observeEncoder(encoder, slot, entriesOf);
    return encoder;
  };
}

function observeUnmap(buffer: GPUBuffer, recorder: GpuCommandRecorder): void {
  const getMappedRange = buffer.getMappedRange.bind(buffer);
  let mapped: ArrayBuffer | null = null;
  buffer.getMappedRange = (...range) => (mapped = getMappedRange(...range));
  const unmap = buffer.unmap.bind(buffer);
  buffer.unmap = () => {
    if (mapped) {
      const bytes = new Uint8Array(mapped.slice(0));
      recorder.uploads.set(buffer, bytes);
      if ((buffer.usage & GPUBufferUsage.STORAGE) !== 0) recorder.commands.push({ kind: 'write', buffer, bytes });
    }
    unmap();
    buffer.getMappedRange = getMappedRange;
    buffer.unmap = unmap;
  };
}

function observeEncoder(
  encoder: GPUCommandEncoder,
  slot: { active: GpuCommandRecorder | null },
  entriesOf: WeakMap<GPUBindGroup, RecordedBinding[]>,
): void {
  const beginComputePass = encoder.beginComputePass.bind(encoder);
  encoder.beginComputePass = (descriptor) => {
    const pass = beginComputePass(descriptor);
    let pipeline: GPUComputePipeline | null = null;
    let bindings: RecordedBinding[] | null = null;
    const setPipeline = pass.setPipeline.bind(pass);
    pass.setPipeline = (next) => setPipeline((pipeline = next));
    const setBindGroup = pass.setBindGroup.bind(pass) as (index: number, group: GPUBindGroup) => void;
    pass.setBindGroup = ((index: number, group: GPUBindGroup) => {
      bindings = entriesOf.get(group) ?? null;
      setBindGroup(index, group);
    }) as GPUComputePassEncoder['setBindGroup'];
    const dispatch = pass.dispatchWorkgroups.bind(pass);
    pass.dispatchWorkgroups = (x, y = 1, z = 1) => {
      dispatch(x, y, z);
      if (!slot.active) return;
      if (!pipeline || !bindings) slot.active.problem ??= 'a shader has inputs that were not observed';
      else slot.active.commands.push({ kind: 'dispatch', pipeline, bindings, workgroups: [x, y, z] });
    };
    return pass;
  };
  const copy = encoder.copyBufferToBuffer.bind(encoder) as (...args: CopyArguments) => void;
  encoder.copyBufferToBuffer = ((...args: CopyArguments) => {
    copy(...args);
    if (!slot.active) return;
    const [source, from, target, to] = args;
    const bytes = slot.active.uploads.get(source);
    if (bytes && from === 0 && to === 0) slot.active.commands.push({ kind: 'write', buffer: target, bytes });
    // Copies to buffers that the CPU reads do not change what a pass computes.
    else if ((target.usage & GPUBufferUsage.MAP_READ) === 0) slot.active.problem ??= 'a buffer was copied on the GPU';
  }) as GPUCommandEncoder['copyBufferToBuffer'];
}

type CopyArguments = [source: GPUBuffer, from: number, target: GPUBuffer, to: number, size: number];

function bindingOf({ binding, resource }: GPUBindGroupEntry): RecordedBinding {
  const { buffer, offset = 0, size } = resource as GPUBufferBinding;
  return { binding, buffer, offset, size };
}

function bytesOf(data: ArrayBufferLike | ArrayBufferView): { bytes: Uint8Array; unit: number } {
  if (!ArrayBuffer.isView(data)) return { bytes: new Uint8Array(data), unit: 1 };
  const unit = 'BYTES_PER_ELEMENT' in data ? (data.BYTES_PER_ELEMENT as number) : 1;
  return { bytes: new Uint8Array(data.buffer, data.byteOffset, data.byteLength), unit };
}
