/** The models in jax-js: a step is one jitted function, with Adam. */
import { defaultDevice, init, jit, lax, nn, numpy as np, valueAndGrad } from '@jax-js/jax';
import { RMS_NORM_EPSILON } from '../../src/jobs/gpt/shapes.ts';
import { fromBase64url } from '../../src/util/base64url.ts';
import { DeviceError } from '../../src/util/errors.ts';
import { elementCountOf } from '../../src/util/shape.ts';
import { ADAM, BATCHES, MODELS, type OpenArgs, type Peer } from './args.ts';

type Parameters = np.Array[];
/** Returns logits. Functions of jax-js consume their arguments; `ref` keeps one for another use. */
type Forward = (parameters: Parameters, x: np.Array, heads: number) => np.Array;

/** Convolutions, if kernels have four axes, then dense layers; each with a bias. */
const layers: Forward = (parameters, x) => {
  let y = x;
  for (let i = 0; i < parameters.length; i += 2) {
    const [kernel, bias] = [parameters[i]!, parameters[i + 1]!];
    if (kernel.ndim === 4) y = lax.convGeneralDilated(y, kernel, [2, 2], 'SAME').add(bias.reshape([-1, 1, 1]));
    else y = np.matmul(y.reshape([-1, kernel.shape[0]!]), kernel).add(bias);
    if (i + 2 < parameters.length) y = nn.relu(y);
  }
  return y;
};

function rmsNorm(x: np.Array, scale: np.Array): np.Array {
  const root = np.sqrt(np.mean(np.square(x.ref), -1, { keepdims: true }).add(RMS_NORM_EPSILON));
  return x.div(root).mul(scale);
}

const transformer: Forward = ([table, positions, ...rest], tokens, heads) => {
  const [batch, context] = tokens.shape as [number, number];
  const width = table!.shape[1]!;
  let x = np.take(table!.ref, tokens, 0).add(positions!);
  for (let i = 0; i + 6 < rest.length; i += 6) {
    const [norm1, attend, project, norm2, expand, contract] = rest.slice(i, i + 6);
    const qkv = np.matmul(rmsNorm(x.ref, norm1!), attend!);
    const split = np.split(qkv, 3, -1).map((one) => one.reshape([batch, context, heads, width / heads]));
    const attended = nn.dotProductAttention(split[0]!, split[1]!, split[2]!, { isCausal: true });
    x = x.add(np.matmul(attended.reshape([batch, context, width]), project!));
    const inner = nn.relu(np.matmul(rmsNorm(x.ref, norm2!), expand!));
    x = x.add(np.matmul(inner, contract!));
  }
  return np.matmul(rmsNorm(x, rest.at(-1)!), np.matrixTranspose(table!)).reshape([batch * context, -1]);
};

type State = {
  parameters: Parameters;
  means: Parameters;
  squares: Parameters;
  /** The powers of beta1 and beta2 after this number of steps. */
  powers: Parameters;
};

function adam({ parameters, means, squares, powers }: State, gradients: Parameters): State {
  const { learningRate, beta1, beta2, epsilon } = ADAM;
  const [power1, power2] = [powers[0]!.mul(beta1), powers[1]!.mul(beta2)];
  const m = means.map((mean, i) => mean.mul(beta1).add(gradients[i]!.ref.mul(1 - beta1)));
  const v = squares.map((square, i) => square.mul(beta2).add(np.square(gradients[i]!).mul(1 - beta2)));
  const [rest1, rest2] = [np.subtract(1, power1.ref), np.subtract(1, power2.ref)];
  const moved = parameters.map((parameter, i) => {
    const root = np.sqrt(v[i]!.ref.div(rest2.ref)).add(epsilon);
    return parameter.sub(m[i]!.ref.div(rest1.ref).div(root).mul(learningRate));
  });
  rest1.dispose();
  rest2.dispose();
  return { parameters: moved, means: m, squares: v, powers: [power1, power2] };
}

export async function openJax({ model, backend, problem }: OpenArgs): Promise<Peer> {
  if (!(await init(backend)).includes(backend)) throw new DeviceError(`jax-js could not open ${backend}.`);
  defaultDevice(backend);
  const { shapes, heads, ...arrays } = problem!;
  const forward = heads > 0 ? transformer : layers;
  const lossOf = (parameters: Parameters, x: np.Array, labels: np.Array): np.Array => {
    const logits = forward(parameters, x, heads);
    const [rows, classes] = logits.shape as [number, number];
    const chosen = nn.logSoftmax(logits).mul(nn.oneHot(labels, classes));
    return chosen.sum().mul(-1 / rows);
  };
  const step = jit((state: State, x: np.Array, labels: np.Array): [np.Array, State] => {
    const kept = state.parameters.map((one) => one.ref);
    const [loss, gradients] = valueAndGrad(lossOf)(kept, x, labels);
    return [loss, adam(state, gradients)];
  });

  const weights = new Float32Array(fromBase64url(arrays.weights).buffer);
  let read = 0;
  const parameters = shapes.map((shape) => np.array(weights.slice(read, (read += elementCountOf(shape))), { shape }));
  const zeros = (): Parameters => shapes.map((shape) => np.zeros(shape));
  let state: State = { parameters, means: zeros(), squares: zeros(), powers: [np.array(1), np.array(1)] };
  const { batch } = MODELS[model];
  const bytes = fromBase64url(arrays.inputs).buffer;
  const inputs = heads > 0 ? new Int32Array(bytes) : new Float32Array(bytes);
  const labels = new Int32Array(fromBase64url(arrays.labels).buffer);
  return {
    step: async (i) => {
      const x = np.array(partOf(inputs, i)).reshape(heads > 0 ? [batch, -1] : [batch, 1, 28, 28]);
      const [loss, next] = step(state, x, np.array(partOf(labels, i)));
      state = next;
      return (await loss.data())[0]!;
    },
  };
}

/** Returns batch `i`. */
function partOf<Values extends Float32Array | Int32Array>(values: Values, i: number): Values {
  const length = values.length / BATCHES;
  return values.slice(i * length, (i + 1) * length) as Values;
}
