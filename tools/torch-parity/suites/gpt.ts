import * as tf from '@tensorflow/tfjs';
import { GptNetwork, paddedVocabularySize } from '../../../src/jobs/index.ts';
import type { Suite } from '../suite.ts';

const TOKENS = 21;
const CONTEXT = 12;

/**
 * Logits, loss and gradients of the language model for two samples. The weights are not the initial
 * ones.
 */
export const gpt: Suite = {
  name: 'gpt',
  tolerance: 2e-6,
  compute: async () => {
    const size = { layers: 2, heads: 4, width: 16, context: CONTEXT, vocabulary: paddedVocabularySize(TOKENS) };
    const network = new GptNetwork(size, 7);
    for (const [i, variable] of network.variables.entries()) {
      variable.assign(variable.add(tf.randomNormal(variable.shape, 0, 0.3, 'float32', i + 1)));
    }
    const windows = [7, 5].map((stride) => Array.from({ length: CONTEXT }, (_, i) => (i * stride + 3) % TOKENS));
    const next = windows.flat().map((token) => (token * 3 + 1) % TOKENS);
    const tokens = tf.tensor2d(windows, undefined, 'int32');
    const targets = tf.oneHot(tf.tensor1d(next, 'int32'), size.vocabulary).cast('float32');
    const variables = [...network.variables];
    const { value, grads } = tf.variableGrads(
      () =>
        tf
          .logSoftmax(network.logits(tokens))
          .mul(targets)
          .sum()
          .mul(-1 / CONTEXT)
          .asScalar(),
      variables,
    );
    return {
      size,
      windows,
      next,
      logits: Array.from(await network.logits(tokens).data()),
      loss: (await value.data())[0]!,
      variables: await Promise.all(
        variables.map(async (variable) => ({
          shape: variable.shape,
          values: Array.from(await variable.data()),
          gradient: Array.from(await grads[variable.name]!.data()),
        })),
      ),
    };
  },
};
