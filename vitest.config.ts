import { defineConfig } from 'vitest/config';

/** Real browsers. */
const IN_TABS = [
  'test/tabs/**/*.test.ts',
  'test/conformance/tabs.test.ts',
  'test/examples/**/*.test.ts',
  'test/package/**/*.test.ts',
];

export default defineConfig({
  test: {
    projects: [
      {
        extends: true,
        test: {
          name: 'node',
          include: ['test/**/*.test.ts'],
          exclude: IN_TABS,
          // As many as the smallest machine these run on has cores; vitest would leave one idle.
          maxWorkers: 2,
          sequence: { groupOrder: 0 },
        },
      },
      {
        extends: true,
        test: {
          name: 'tabs',
          include: IN_TABS,
          // Of real browsers, what runs side by side only gets in each other's way.
          fileParallelism: false,
          sequence: { groupOrder: 1 },
        },
      },
    ],
    setupFiles: ['test/setup.ts'],
    testTimeout: 20_000,
  },
});
