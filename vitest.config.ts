import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    setupFiles: ['test/setup.ts'],
    // Two cores and real browsers: what runs side by side only gets in each other's way.
    fileParallelism: false,
    testTimeout: 20_000,
  },
});
