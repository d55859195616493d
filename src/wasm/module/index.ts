/**
 * The kernels of this project on WebAssembly, in AssemblyScript. They compute in the memory of
 * TensorFlow.js's module. Most functions write their first arguments. All pointers are multiples of
 * 4. `npm run kernels` compiles them.
 */
export { attention, attentionBytes, attentionGradient } from './attention';
export { convolutionGradient, windowBytes } from './convolution';
export { crossEntropy, crossEntropyGradient } from './crossEntropy';
export { multiply, SCRATCH } from './product';
export { addRow, rmsNorm, rmsNormGradient, rmsNormScaleProducts, sumColumns, sumRows } from './rows';
export { depthwiseFilterGradient, depthwiseInputGradient, poolGradient } from './windows';
