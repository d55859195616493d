import { readFile } from 'node:fs/promises';
import path from 'node:path';
import * as tf from '@tensorflow/tfjs';
import { buildJobModel } from '../../../src/jobs/models/models.ts';
import { encodeWeights } from '../../../src/formats/weights/weightsFile.ts';
import { parseJob } from '../../../src/spec/job.ts';
import { createRng } from '../../../src/util/rng.ts';
import type { Suite } from '../suite.ts';

const EXPORT_MD = path.resolve(import.meta.dirname, '../../../docs/export.md');
const IMAGES = { inputShape: [28, 28, 1], classes: 10 } as const;
const SAMPLES = 3;

const layer = (class_name: string, name: string, config: object) => ({ class_name, config: { name, ...config } });
/** Layers of custom models: one of each class that has weights. */
const OWN_LAYERS = {
  class_name: 'Sequential',
  config: {
    layers: [
      layer('Conv2D', 'conv', { filters: 3, kernel_size: 5, strides: 3, batch_input_shape: [null, 28, 28, 1] }),
      layer('DepthwiseConv2D', 'depthwise', { kernel_size: [3, 2], depth_multiplier: 2 }),
      layer('LayerNormalization', 'normalized', {}),
      layer('Flatten', 'flat', {}),
      layer('Dense', 'answer', { units: 10 }),
    ],
  },
};

/**
 * Outputs of models that are saved as safetensors and then loaded into PyTorch with the code in
 * docs/export.md.
 */
export const exported: Suite = {
  name: 'exported',
  tolerance: 1e-6,
  compute: async () => {
    const page = await readFile(EXPORT_MD, 'utf8');
    const section = page.split(/^## /m).find((text) => text.startsWith('PyTorch'))!;
    const code = [...section.matchAll(/^```python\n([^]*?)^```/gm)].map(([, block]) => block!);
    const rng = createRng(5);
    const inputs = Float32Array.from({ length: SAMPLES * 28 * 28 }, () => rng.next());
    const cases = [];
    for (const [name, model] of Object.entries({ mlp: 'mlp', cnn: 'cnn', ownLayers: OWN_LAYERS })) {
      const built = buildJobModel(parseJob({ job: 'digits', model, hidden: 8 }), IMAGES);
      // Biases are set to other values, because their initial zeros would hide a wrong position.
      for (const variable of built.variables) {
        const values = Float32Array.from(variable.dataSync(), (value) => value + 0.2 * (rng.next() - 0.5));
        variable.assign(tf.tensor(values, variable.shape));
      }
      const tensors = built.names.map((weight, i) => {
        const variable = built.variables[i]!;
        return { name: weight, shape: variable.shape, values: variable.dataSync<'float32'>().slice() };
      });
      const file = await encodeWeights('safetensors', tensors, built.topology, {});
      const outputs = built.logits(tf.tensor(inputs, [SAMPLES, 28, 28, 1]));
      cases.push({ name, file: Buffer.from(file).toString('base64'), outputs: await outputs.array() });
      built.dispose();
    }
    return { code, inputs: [...inputs], cases };
  },
};
