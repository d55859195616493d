import { defineConfig } from 'vite';
import { licencePlugins } from './tools/packages/licences.ts';

const licences = licencePlugins();

/** Builds the page with its engine worker, and the examples' page, to `dist/`, which the signaling server serves. */
export default defineConfig({
  // Relative, so that the app may live in a folder of somebody's server.
  base: './',
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  plugins: licences.plugins,
  worker: { format: 'es', ...licences.worker },
  build: {
    outDir: 'dist',
    // Named, so that a build of another page in a test replaces them.
    rolldownOptions: { input: { index: 'index.html', examples: 'examples/index.html' } },
    // WebGPU needs a browser of 2023 or later anyway.
    target: 'es2023',
    // `light-dark()` and popovers, of 2024, are meant as written; for older targets colours would be rewritten.
    cssTarget: ['chrome123', 'firefox125', 'safari17.5'],
    // No data: URLs, so that a strict Content-Security-Policy holds.
    assetsInlineLimit: 0,
    // TensorFlow.js is two megabytes, in the worker, loaded once a room is entered.
    chunkSizeWarningLimit: 3000,
  },
  optimizeDeps: {
    // The plain entry needs Node's `global`; the prebuilt one does not.
    include: ['simple-peer/simplepeer.min.js'],
  },
  server: {
    // As the signaling server does, so that WebAssembly has threads.
    headers: { 'cross-origin-opener-policy': 'same-origin', 'cross-origin-embedder-policy': 'require-corp' },
    // `npm run dev` shows the page as it is edited; run `npm start` beside it for rooms and data.
    proxy: {
      '/signal': { target: 'ws://127.0.0.1:8080', ws: true },
      '/link': { target: 'ws://127.0.0.1:8080', ws: true },
      '/data': { target: 'http://127.0.0.1:8080' },
    },
  },
});
