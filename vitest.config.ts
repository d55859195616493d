import { defineConfig } from 'vitest/config';

/** Real browsers, servers in processes of their own, and what is measured. */
const ALONE = ['tabs', 'conformance', 'examples', 'package', 'bench', 'launcher', 'signaling'].map(
  (folder) => `test/${folder}/**/*.test.ts`,
);

export default defineConfig({
  test: {
    projects: [
      {
        extends: true,
        test: {
          name: 'node',
          include: ['test/**/*.test.ts'],
          exclude: ALONE,
          // As many as the smallest machine these run on has cores; vitest would leave one idle.
          maxWorkers: 2,
          sequence: { groupOrder: 0 },
        },
      },
      {
        extends: true,
        test: {
          name: 'tabs',
          include: ALONE,
          // Two cores and real browsers: what runs side by side only gets in each other's way.
          fileParallelism: false,
          sequence: { groupOrder: 1 },
        },
      },
    ],
    setupFiles: ['test/setup.ts'],
    testTimeout: 20_000,
  },
});
