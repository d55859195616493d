import * as tf from '@tensorflow/tfjs';
import { DrawnDigits } from '/work/main/src/jobs/digits.ts';
import { train } from './lib.ts';
await tf.setBackend('cpu');
for (const [model, lr] of [['mlp',.001],['mlp',.003],['mlp',.005]] as const) for (const seed of [1,2]) { const t0 = performance.now();
console.log(model, lr, seed, await train(new DrawnDigits(seed, 'train'), new DrawnDigits(seed, 'test'), { model, lr, batch: 128, steps: 160, seed, at: [20,40,80,120,150] }), Math.round(performance.now() - t0)); }
