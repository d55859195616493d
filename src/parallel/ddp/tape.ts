/**
 * A tape that outlives the call that recorded it. TensorFlow.js records a forward pass and
 * differentiates it in one synchronous call (`tf.grads`); a pass that has to wait for other ranks
 * in between records its parts first and differentiates each of them later. Nothing is computed
 * twice, so random layers and moving averages need no care.
 *
 * This is the one place that touches the engine's tape (`tf.engine().state`, public but
 * undocumented): while recording it is put in the place of the engine's own, and to differentiate,
 * its nodes are handed to the engine as if they had just been recorded.
 */
import * as tf from '@tensorflow/tfjs';

/**
 * What was computed, op by op, with the tensors that the gradients of those ops need. Whoever
 * records it disposes of it.
 */
export type Tape = ReturnType<typeof tf.engine>['state']['activeTape'];

/** Runs `forward`, tidied, and records it; its tensors belong to the caller. */
export function recordTape<T extends tf.TensorContainer>(forward: () => T): { result: T; tape: Tape } {
  const { state } = tf.engine();
  const { activeTape, gradientDepth } = state;
  const tape: Tape = [];
  state.activeTape = tape;
  state.gradientDepth = 1;
  try {
    return { result: tf.tidy(forward), tape };
  } catch (error) {
    disposeTape(tape);
    throw error;
  } finally {
    state.activeTape = activeTape;
    state.gradientDepth = gradientDepth;
  }
}

/** Frees what the tape keeps for its gradients; again is fine. */
export function disposeTape(tape: Tape): void {
  for (const { saved } of tape) tf.dispose(saved ?? []);
}

/**
 * Takes the gradient back through the tape: the sum over `outputs` of its product with each one's
 * Jacobian (a vector-Jacobian product), for each of `xs`; null where no output depends on it. The
 * tape is used up.
 *
 * @param outputs tensors computed on the tape, each with its gradient, of its shape.
 * @param xs tensors the tape started from, variables included.
 */
export function differentiateTape(
  tape: Tape,
  outputs: readonly { tensor: tf.Tensor; gradient: tf.Tensor }[],
  xs: readonly tf.Tensor[],
): (tf.Tensor | null)[] {
  const engine = tf.engine();
  // Stands for the rest of the pass: a function of the outputs whose gradients are those given.
  const rest = tf.customGrad(() => ({
    value: tf.scalar(0),
    // Copies, as the engine disposes of gradients it has added up.
    gradFunc: () => outputs.map(({ gradient }) => gradient.clone()),
  }));
  try {
    const { value, grads } = engine.gradients(
      () => {
        engine.state.activeTape.push(...tape);
        return rest(...outputs.map(({ tensor }) => tensor));
      },
      [...xs],
      undefined,
      true,
    );
    value.dispose();
    // The engine leaves a hole where no output depends on x, whatever its type says.
    return (grads as (tf.Tensor | undefined)[]).map((gradient) => gradient ?? null);
  } finally {
    disposeTape(tape);
  }
}

/**
 * The order in which back-propagation finishes the gradients of `variables`: it walks the tape
 * backwards, so a gradient is final once the first op on the tape that leads from its variable to
 * `loss` is reached. Of variables that one op finishes the later comes first. To be called inside
 * the gradient scope.
 */
export function readyOrderOf(variables: readonly tf.Variable[], loss: tf.Scalar): number[] {
  const uses = usesOf(variables, loss).map((all) => all.at(-1)?.index ?? -1);
  return [...uses.keys()].reverse().sort((a, b) => uses[b]! - uses[a]!);
}

/** What hears of a gradient that is final while back-propagation still runs. */
export type GradientListener = (variable: number, gradient: tf.Tensor) => void;

/**
 * Has back-propagation tell `onfinal` each gradient as soon as it is recorded, before it goes on to
 * the ops further ahead: what is recorded then is computed before the rest, that op's own other
 * inputs included. Only of variables that a single op uses; the gradients of others are sums that
 * the engine keeps to itself. To be called inside the gradient scope.
 */
export function watchGradients(variables: readonly tf.Variable[], loss: tf.Scalar, onfinal: GradientListener): void {
  for (const [variable, uses] of usesOf(variables, loss).entries()) {
    const [use] = uses;
    if (uses.length !== 1 || !use) continue;
    const { node, input } = use;
    const { gradient, inputs } = node;
    // An op without a gradient: the engine says so.
    if (!gradient) continue;
    // The engine goes through inputs in their order, and what lies further ahead waits for none but
    // the others.
    node.inputs = { [input]: inputs[input]!, ...inputs };
    node.gradient = (dys) => {
      const byInput = gradient(dys);
      const compute = byInput[input];
      if (!compute) return byInput;
      const told = (): tf.Tensor => {
        const final = compute();
        onfinal(variable, final);
        return final;
      };
      return { ...byInput, [input]: told };
    };
  }
}

interface Use {
  /** On the tape. */
  index: number;
  node: Tape[number];
  /** Its name in the node's inputs. */
  input: string;
}

/** By variable: the ops that lead from it to `loss`, the last first. */
function usesOf(variables: readonly tf.Variable[], loss: tf.Scalar): Use[][] {
  const tape = tf.engine().state.activeTape ?? [];
  const leadsToLoss = new Set([loss.id]);
  const uses = new Map<number, Use[]>(variables.map(({ id }) => [id, []]));
  for (let index = tape.length - 1; index >= 0; index--) {
    const node = tape[index]!;
    if (!node.outputs.some(({ id }) => leadsToLoss.has(id))) continue;
    for (const [input, { id }] of Object.entries(node.inputs)) {
      leadsToLoss.add(id);
      uses.get(id)?.push({ index, node, input });
    }
  }
  return variables.map(({ id }) => uses.get(id)!);
}
