/**
 * Connections between the layers of a Functional, in the notations of Keras 2, Keras 3 and
 * TensorFlow.js. The validated result is in the notation of TensorFlow.js.
 */
import * as v from 'valibot';

/**
 * The calls of a layer: one call, or no call for the input layer. A call lists the layers that it
 * reads. It always reads their first output.
 */
export type InboundNodes = [name: string, node: 0, tensor: 0, given: Record<string, never>][][];

const SHARED = 'layers that are called several times (shared weights) are not supported';
const ARGUMENTS = 'arguments of calls are not supported: remove them';
const NO_CALL =
  'it must list the layers whose output this layer reads, as [[["conv2d", 0, 0, {}]]], or in Keras 3\'s format with "args"';

/** A reference in Keras 2's and TensorFlow.js's format. */
const Reference = v.tupleWithRest([v.string(), v.number(), v.number()], v.unknown());
type Reference = v.InferOutput<typeof Reference>;

/** A call in Keras 3's format. */
const KerasCall = v.object({ args: v.array(v.unknown()), kwargs: v.optional(v.unknown()) });
const KerasTensor = v.object({
  class_name: v.literal('__keras_tensor__'),
  config: v.object({ keras_history: Reference }),
});

/**
 * Returns a schema for the single input or output layer, which may be written alone or in a list.
 */
export const oneEndSchema = (what: 'input' | 'output') =>
  v.pipe(
    v.union(
      [
        v.pipe(
          Reference,
          v.transform((one) => [one]),
        ),
        v.array(Reference),
      ],
      `it must name the ${what} layer, for example [["dense", 0, 0]]`,
    ),
    v.check((all) => all.length === 1, `a model must have exactly one ${what}`),
    v.check((all) => all.every(isFirst), SHARED),
    v.transform((all): [string, 0, 0][] => all.map(([name]) => [name, 0, 0])),
  );

export const InboundNodesSchema = v.pipe(
  v.optional(v.array(v.unknown()), []),
  v.rawTransform(({ dataset, addIssue, NEVER }): InboundNodes => {
    const [call, ...others] = dataset.value;
    if (call === undefined) return [];
    const taken = others.length > 0 ? SHARED : takenBy(call);
    if (typeof taken !== 'string') return [taken.map(([name]) => [name, 0, 0, {}])];
    addIssue({ message: taken });
    return NEVER;
  }),
);

/** Returns the references of a call, or the reason why the call is not supported. */
function takenBy(call: unknown): Reference[] | string {
  const keras = v.safeParse(KerasCall, call);
  const references = keras.success ? ofKeras(keras.output.args) : Array.isArray(call) ? ofLists(call) : null;
  if (references === null || references.length === 0) return NO_CALL;
  const given = keras.success ? [keras.output.kwargs] : references.map(([, , , argument]) => argument);
  if (!given.every(hasNoArguments)) return ARGUMENTS;
  return references.every(isFirst) ? references : SHARED;
}

/**
 * Returns the references in a call's arguments, which are tensors or lists of tensors; `null` if an
 * argument is something else.
 */
function ofKeras(args: readonly unknown[]): Reference[] | null {
  const all: Reference[] = [];
  for (const one of args.flat()) {
    const tensor = v.safeParse(KerasTensor, one);
    if (!tensor.success) return null;
    all.push(tensor.output.config.keras_history);
  }
  return all;
}

function ofLists(call: readonly unknown[]): Reference[] | null {
  const all = v.safeParse(v.array(Reference), typeof call[0] === 'string' ? [call] : call);
  return all.success ? all.output : null;
}

/** Returns whether a reference points to the first output of a layer's first call. */
function isFirst([, node, tensor]: Reference): boolean {
  return node === 0 && tensor === 0;
}

/**
 * Returns whether the arguments of a call have no effect. For example, Keras 3 writes `{"training":
 * false}` for a Dropout.
 */
function hasNoArguments(given: unknown): boolean {
  if (given === undefined || given === null) return true;
  return typeof given === 'object' && Object.values(given).every((value) => value === null || value === false);
}
