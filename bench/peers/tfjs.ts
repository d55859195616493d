/** Plain TensorFlow.js: its own kernels, `variableGrads` and `tf.train.adam`. */
import * as tf from '@tensorflow/tfjs';
import { setWasmPaths } from '@tensorflow/tfjs-backend-wasm';
import plain from '@tensorflow/tfjs-backend-wasm/dist/tfjs-backend-wasm.wasm?url';
import simd from '@tensorflow/tfjs-backend-wasm/dist/tfjs-backend-wasm-simd.wasm?url';
import '@tensorflow/tfjs-backend-webgpu';
import { variablesOf } from '../../src/parallel/backward/flatten.ts';
import { DeviceError } from '../../src/util/errors.ts';
import { ADAM, MODELS, type OpenArgs, type Peer } from './args.ts';
import { loadTask } from './task.ts';

export async function openTensorflow({ model, backend }: OpenArgs): Promise<Peer> {
  tf.env().set('WASM_HAS_MULTITHREAD_SUPPORT', false);
  setWasmPaths({
    'tfjs-backend-wasm.wasm': plain,
    'tfjs-backend-wasm-simd.wasm': simd,
    'tfjs-backend-wasm-threaded-simd.wasm': simd,
  });
  if (!(await tf.setBackend(backend))) throw new DeviceError(`TensorFlow.js could not open ${backend}.`);
  const { task, indicesOf } = await loadTask(model);
  const variables = [...variablesOf(task.model).parameters];
  const { learningRate, beta1, beta2, epsilon } = ADAM;
  const optimizer = tf.train.adam(learningRate, beta1, beta2, epsilon);
  const { batch } = MODELS[model];
  return {
    step: (i) =>
      task.withBatch(
        indicesOf(i),
        async (pass) => {
          const { value, grads } = tf.variableGrads(() => (pass as () => tf.Scalar)().div(batch), variables);
          optimizer.applyGradients(Object.entries(grads).map(([name, tensor]) => ({ name, tensor })));
          const [loss] = await value.data();
          tf.dispose([value, grads]);
          return loss!;
        },
        { step: 0, epoch: 0 },
        batch,
      ),
  };
}
