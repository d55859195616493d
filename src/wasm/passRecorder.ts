/** Records passes on the WebAssembly backend of TensorFlow.js, and compares recordings. */
import * as tf from '@tensorflow/tfjs';
import type { PassRecorder, PassRecording, PassReplay, PinnedTensors } from '../gpu/passRecorder.ts';
import { wasmTensorPlaceOf, wasmBackend, type WasmBackend } from './backend.ts';
import { tensorBlockLayoutOf, type TensorBlockLayout } from './blockLayout.ts';
import {
  canRecordWasm,
  recordWasmPass,
  RenumberedTensor,
  type WasmArgument,
  type RecordedPointer,
  type RecordedWasmTensor,
  type WasmEvent,
} from './recording.ts';
import { WasmReplay, type PinnedReplayTensors } from './replay.ts';

/** Returns `null` if WebAssembly is not the current backend, or its kernels are not observed. */
export function createWasmPassRecorder(): PassRecorder | null {
  const backend = wasmBackend();
  return backend && canRecordWasm(backend) ? new WasmPassRecorder(backend) : null;
}

class WasmPassRecorder implements PassRecorder {
  readonly #backend: WasmBackend;

  constructor(backend: WasmBackend) {
    this.#backend = backend;
  }

  place(tensor: tf.Tensor): number {
    return wasmTensorPlaceOf(this.#backend, tensor).id;
  }

  record<T>(
    { parameters, inputs }: PinnedTensors,
    main: (mark: (value: number) => void) => T,
  ): { result: T; recording: PassRecording } {
    const backend = this.#backend;
    // The caller disposes of the inputs, so in the recording they have other numbers.
    const renamed = inputs.map((input) => new RenumberedTensor(backend, input));
    try {
      const known = [...parameters.map((one) => wasmTensorPlaceOf(backend, one).id), ...renamed.map(({ id }) => id)];
      const { result, events, constants } = recordWasmPass(backend, known, main);
      const pinned = {
        parameters: parameters.map((one) => ({ ...wasmTensorPlaceOf(backend, one), size: one.size })),
        inputs: inputs.map(({ shape, dtype }, i) => ({ id: renamed[i]!.id, shape, dtype })),
        constants,
      };
      return { result, recording: new WasmRecording(backend, events, pinned) };
    } finally {
      for (const one of renamed.toReversed()) one.restore();
    }
  }
}

class WasmRecording implements PassRecording {
  readonly problem: string | null;
  readonly #backend: WasmBackend;
  readonly #events: readonly WasmEvent[];
  readonly #pinned: PinnedReplayTensors;
  #layout: TensorBlockLayout | null = null;

  constructor(backend: WasmBackend, events: readonly WasmEvent[], pinned: PinnedReplayTensors) {
    this.#backend = backend;
    this.#events = events;
    this.#pinned = pinned;
    this.problem = problemIn(events);
  }

  get bytes(): number {
    return this.#laidOut().bytes;
  }

  differenceFrom(earlier: WasmRecording): string | null {
    return differenceBetween([earlier.#events, earlier.#pinned], [this.#events, this.#pinned]);
  }

  async capture(results: readonly tf.Tensor[]): Promise<PassReplay> {
    const layout = this.#laidOut();
    if (results.some((result) => !layout.offsets.has(wasmTensorPlaceOf(this.#backend, result).id))) {
      throw new Error('a gradient is computed outside of the pass');
    }
    return new WasmReplay(this.#backend, this.#events, this.#pinned, layout, results);
  }

  /**
   * Returns the layout. It is computed when it is first needed, because most recordings are only
   * compared.
   */
  #laidOut(): TensorBlockLayout {
    const { inputs, constants } = this.#pinned;
    return (this.#layout ??= tensorBlockLayoutOf(this.#events, [...inputs, ...constants]));
  }
}

/** Returns why a recording cannot be replayed, or `null`. */
function problemIn(events: readonly WasmEvent[]): string | null {
  const created = new Set<number>();
  for (const event of events) {
    if (event.kind === 'create') {
      if (event.size > 0 && event.bytes === 0) return 'a kernel allocates its result itself';
      created.add(event.id);
    } else if (event.kind === 'free' && !created.has(event.id)) return 'it frees a tensor that exists before it';
  }
  return null;
}

/**
 * Returns the first difference between two recordings as a phrase; `null` if they are equal except
 * for the numbers of their tensors.
 */
function differenceBetween(
  [first, firstPinned]: readonly [readonly WasmEvent[], PinnedReplayTensors],
  [second, secondPinned]: readonly [readonly WasmEvent[], PinnedReplayTensors],
): string | null {
  if (first.length !== second.length) return `the numbers of commands are ${first.length} and ${second.length}`;
  const partners = new Map<number, number>();
  const constants = secondPinned.constants;
  const areConstant =
    firstPinned.constants.length === constants.length &&
    firstPinned.constants.every(({ values }, i) => areEqual(values, constants[i]!.values));
  if (!areConstant) return 'tensors that exist before it changed';
  for (const name of ['parameters', 'inputs', 'constants'] as const) {
    for (const [i, { id }] of firstPinned[name].entries()) partners.set(id, secondPinned[name][i]!.id);
  }
  const isSame = (a: number, b: number): boolean => partners.get(a) === b;
  const isSameArgument = (a: WasmArgument, b: WasmArgument): boolean =>
    a instanceof Uint8Array && b instanceof Uint8Array
      ? areEqual(a, b)
      : a === b || (typeof a === 'number' && typeof b === 'number' && isSame(a, b));
  const isSamePointer = (a: number | RecordedPointer, b: number | RecordedPointer): boolean =>
    typeof a === 'number' || typeof b === 'number' ? a === b : a.at === b.at && isSame(a.id, b.id);
  const isSameTensor = (a: RecordedWasmTensor, b: RecordedWasmTensor): boolean =>
    isSame(a.id, b.id) && a.dtype === b.dtype && tf.util.arraysEqual(a.shape, b.shape);
  for (const [i, a] of first.entries()) {
    const b = second[i]!;
    const at = `at command ${i}`;
    if (a.kind === 'create' && b.kind === 'create') {
      if (a.bytes !== b.bytes) return `${at}, a tensor has another size`;
      partners.set(a.id, b.id);
    } else if (a.kind === 'write' && b.kind === 'write') {
      if (!isSame(a.id, b.id) || !areEqual(a.values, b.values)) return `${at}, values that JavaScript computes changed`;
    } else if (a.kind === 'call' && b.kind === 'call') {
      const isEqual = a.run === b.run && a.args.every((argument, k) => isSameArgument(argument, b.args[k]!));
      if (!isEqual) return `${at}, another function runs, or with other arguments`;
    } else if (a.kind === 'compute' && b.kind === 'compute') {
      const isEqual = a.run === b.run && a.args.every((argument, k) => isSamePointer(argument, b.args[k]!));
      if (!isEqual) return `${at}, another function runs, or with other arguments`;
    } else if (a.kind === 'kernel' && b.kind === 'kernel') {
      const tensors = (event: typeof a): RecordedWasmTensor[] => [...Object.values(event.inputs), ...event.outputs];
      const isEqual =
        a.run === b.run &&
        JSON.stringify(a.attrs) === JSON.stringify(b.attrs) &&
        tensors(a).length === tensors(b).length &&
        tensors(a).every((one, k) => isSameTensor(one, tensors(b)[k]!));
      if (!isEqual) return `${at}, another kernel runs, or with other inputs`;
    } else if (a.kind === 'free' && b.kind === 'free') {
      if (!isSame(a.id, b.id)) return `${at}, another tensor is freed`;
    } else if (a.kind !== 'mark' || b.kind !== 'mark' || a.value !== b.value) return `${at}, the order changed`;
  }
  return null;
}

function areEqual(a: Uint8Array, b: Uint8Array): boolean {
  if (a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}
