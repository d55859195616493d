/**
 * Files of Keras weights. They have an entry of their own because they need h5wasm, a library of
 * four megabytes that other pages need not install.
 *
 * @module peergrad/keras
 */
export { loadKerasWeights, saveKerasWeights } from './library/files/kerasWeights.ts';
