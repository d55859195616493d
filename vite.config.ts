import { defineConfig } from 'vite';

/** Builds the page and its engine worker to `dist/`, which the signaling server serves. */
export default defineConfig({
  // Relative, so that the app may live in a folder of somebody's server.
  base: './',
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  worker: { format: 'es' },
  build: {
    outDir: 'dist',
    // WebGPU needs a browser of 2023 or later anyway; `light-dark()` and popovers, one of 2024.
    target: 'es2023',
    // Left to themselves, colours by `light-dark()` would be rewritten for browsers without WebGPU.
    cssTarget: ['chrome123', 'firefox125', 'safari17.5'],
    // No data: URLs, so that a strict Content-Security-Policy holds.
    assetsInlineLimit: 0,
    // TensorFlow.js is a megabyte, in the worker, loaded once a room is entered.
    chunkSizeWarningLimit: 3000,
  },
  optimizeDeps: {
    // The plain entry needs Node's `global`; the prebuilt one does not.
    include: ['simple-peer/simplepeer.min.js'],
  },
});
