/**
 * Loads and saves files of Keras weights. This entry is separate from the entry `peergrad`, because
 * these files need h5wasm, a library of four megabytes. Pages without such files need not install
 * it.
 *
 * @module peergrad/keras
 */
export { loadKerasWeights, saveKerasWeights } from './library/files/kerasWeights.ts';
