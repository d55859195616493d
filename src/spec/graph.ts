/**
 * How layers that branch and come together again take from each other, as Keras 2, Keras 3 and
 * TensorFlow.js write it in a Functional. What is taken is written out as TensorFlow.js does.
 */
import * as v from 'valibot';

/**
 * The calls of a layer, of which there is one, or of the input none: of each layer whose output it
 * gets, its name and its first output.
 */
export type Inbound = [name: string, node: 0, tensor: 0, given: Record<string, never>][][];

const SHARED = 'a layer is used once here: one that is called several times would share its weights';
const ARGUMENTS = 'a layer is called with what others give and nothing else: leave other arguments out';
const NO_CALL =
  'it says which layers the layer takes from, as [[["conv2d", 0, 0, {}]]], or as Keras 3 does, with "args"';

/** Of Keras 2 and TensorFlow.js. */
const Reference = v.tupleWithRest([v.string(), v.number(), v.number()], v.unknown());
type Reference = v.InferOutput<typeof Reference>;

/** Of Keras 3. */
const KerasCall = v.object({ args: v.array(v.unknown()), kwargs: v.optional(v.unknown()) });
const KerasTensor = v.object({
  class_name: v.literal('__keras_tensor__'),
  config: v.object({ keras_history: Reference }),
});

/** One layer's name, alone or in a list. */
export const oneEnd = (what: 'input' | 'output') =>
  v.pipe(
    v.union(
      [
        v.pipe(
          Reference,
          v.transform((one) => [one]),
        ),
        v.array(Reference),
      ],
      `it names the layer of the ${what}, as [["dense", 0, 0]]`,
    ),
    v.check((all) => all.length === 1, `a model has one ${what} here`),
    v.check((all) => all.every(isFirst), SHARED),
    v.transform((all): [string, 0, 0][] => all.map(([name]) => [name, 0, 0])),
  );

export const Inbounds = v.pipe(
  v.optional(v.array(v.unknown()), []),
  v.rawTransform(({ dataset, addIssue, NEVER }): Inbound => {
    const [call, ...others] = dataset.value;
    if (call === undefined) return [];
    const taken = others.length > 0 ? SHARED : takenBy(call);
    if (typeof taken !== 'string') return [taken.map(([name]) => [name, 0, 0, {}])];
    addIssue({ message: taken });
    return NEVER;
  }),
);

/** What a call takes; in a sentence, why it cannot be a job's. */
function takenBy(call: unknown): Reference[] | string {
  const keras = v.safeParse(KerasCall, call);
  const references = keras.success ? ofKeras(keras.output.args) : Array.isArray(call) ? ofLists(call) : null;
  if (references === null || references.length === 0) return NO_CALL;
  const given = keras.success ? [keras.output.kwargs] : references.map(([, , , argument]) => argument);
  if (!given.every(saysNothing)) return ARGUMENTS;
  return references.every(isFirst) ? references : SHARED;
}

/** One tensor after the other, or lists of them. */
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

/** A layer's first call, and the first that this gives. */
function isFirst([, node, tensor]: Reference): boolean {
  return node === 0 && tensor === 0;
}

/**
 * No arguments, or none that is anything: Keras 3 writes `{"training": false}` of a Dropout, which
 * it then takes as it likes.
 */
function saysNothing(given: unknown): boolean {
  if (given === undefined || given === null) return true;
  return typeof given === 'object' && Object.values(given).every((value) => value === null || value === false);
}
