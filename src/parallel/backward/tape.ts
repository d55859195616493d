/**
 * A tape that outlives the call that recorded it. TensorFlow.js records a forward pass and
 * differentiates it in one synchronous call (`tf.grads`). A pass that waits for other ranks records
 * its parts first and differentiates each of them later. Nothing is computed twice, so random
 * layers and moving averages need no special care.
 *
 * Only this file touches the engine's tape (`tf.engine().state`, public but undocumented). While
 * recording, it replaces the engine's tape; to differentiate, it adds the recorded nodes to the
 * engine's tape.
 */
import * as tf from '@tensorflow/tfjs';

/**
 * The recorded ops, with the tensors that their gradients need. The caller of {@link recordTape}
 * disposes of the tape.
 */
export type Tape = ReturnType<typeof tf.engine>['state']['activeTape'];

/** Runs `forward` in a tidy and records it; the result belongs to the caller. */
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

/** Frees the tensors that the tape keeps for its gradients. Idempotent. */
export function disposeTape(tape: Tape): void {
  for (const { saved } of tape) tf.dispose(saved ?? []);
}

/**
 * Runs `differentiate`, which differentiates with TensorFlow.js's own functions. If it fails, frees
 * the tensors that TensorFlow.js frees only after a success: those in its scopes and on its tape.
 */
export function freeTensorsOnError<T>(differentiate: () => T): T {
  const engine = tf.engine();
  const { state } = engine;
  const before = state.activeTape;
  engine.startScope();
  const scope = state.activeScope;
  try {
    const result = differentiate();
    engine.endScope(result as tf.TensorContainer);
    return result;
  } catch (error) {
    while (state.activeScope !== scope) engine.endScope();
    engine.endScope();
    if (state.activeTape && state.activeTape !== before) disposeTape(state.activeTape);
    state.activeTape = before;
    throw error;
  }
}

/**
 * Back-propagates through the tape. For each of `xs` it returns the sum over `outputs` of the
 * gradient times the Jacobian (a vector-Jacobian product), or null if no output depends on that
 * tensor. The tape cannot be used again.
 *
 * @param outputs tensors computed on the tape, each with its gradient of the same shape.
 * @param xs tensors that the tape started from, variables included.
 */
export function differentiateTape(
  tape: Tape,
  outputs: readonly { tensor: tf.Tensor; gradient: tf.Tensor }[],
  xs: readonly tf.Tensor[],
): (tf.Tensor | null)[] {
  const engine = tf.engine();
  // Stands for the rest of the pass: a function that depends on the outputs and has their given
  // gradients.
  const rest = tf.customGrad(() => ({
    value: tf.scalar(0),
    // The gradients are cloned, because the engine disposes of gradients that it has summed.
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
    // If no output depends on a tensor of `xs`, the engine returns undefined for it, contrary to
    // the type of `grads`.
    return (grads as (tf.Tensor | undefined)[]).map((gradient) => gradient ?? null);
  } finally {
    disposeTape(tape);
  }
}

/**
 * Returns the order in which back-propagation finishes the gradients of `variables`.
 * Back-propagation walks the tape backwards. So the gradient of a variable is final when
 * back-propagation has passed the first op on the tape that has the variable as an input and on
 * which `loss` depends. If one op finishes several variables, the later variables come first. Call
 * it inside the gradient scope.
 */
export function gradientReadyOrderOf(variables: readonly tf.Variable[], loss: tf.Scalar): number[] {
  const uses = usesOf(variables, loss).map((all) => all.at(-1)?.index ?? -1);
  return [...uses.keys()].reverse().sort((a, b) => uses[b]! - uses[a]!);
}

/** Receives a gradient that is final while back-propagation still runs. */
export type GradientListener = (variable: number, gradient: tf.Tensor) => void;

/**
 * Calls `onfinal` with each gradient as soon as it is recorded, before back-propagation continues
 * with earlier ops. So work that the listener records is computed before the rest of
 * back-propagation. `onfinal` is not called for variables that several ops use, because their
 * gradients are sums to which the engine gives no access. Call it inside the gradient scope.
 */
export function watchGradients(variables: readonly tf.Variable[], loss: tf.Scalar, onfinal: GradientListener): void {
  for (const [variable, uses] of usesOf(variables, loss).entries()) {
    const [use] = uses;
    if (uses.length !== 1 || !use) continue;
    const { node, input } = use;
    const { gradient, inputs } = node;
    // If the op has no gradient, the engine throws an error later.
    if (!gradient) continue;
    // The engine visits the inputs in the order of their keys, and must visit the variable first.
    // So the variable's key comes first.
    node.inputs = { [input]: inputs[input]!, ...inputs };
    node.gradient = (dys) => {
      const byInput = gradient(dys);
      const compute = byInput[input];
      if (!compute) return byInput;
      const computeAndReport = (): tf.Tensor => {
        const final = compute();
        onfinal(variable, final);
        return final;
      };
      return { ...byInput, [input]: computeAndReport };
    };
  }
}

interface Use {
  index: number;
  node: Tape[number];
  /** Key of the variable in `node.inputs`. */
  input: string;
}

/**
 * Returns, for each variable, the ops on the tape that have the variable as an input and that
 * `loss` depends on. The last op on the tape comes first.
 */
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
