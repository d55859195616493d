/**
 * The kernels of this project on WebAssembly, in AssemblyScript. They compute in the memory of
 * TensorFlow.js's module. The first arguments of a function are what it writes, and all pointers
 * are multiples of 4. `npm run kernels` compiles them.
 */
export { attention, attentionBytes, attentionGradient } from './attention';
export { filterGradient, inputGradient, windowBytes } from './convolution';
export { crossEntropy, crossEntropyGradient } from './crossEntropy';
export { multiply, SCRATCH } from './product';
export { rmsNorm, rmsNormGradient, rmsNormScaleProducts, sumColumns } from './rows';
