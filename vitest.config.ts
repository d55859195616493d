import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** Real browsers. */
const IN_TABS = [
  'test/tabs/**/*.test.ts',
  'test/firefox/**/*.test.ts',
  'test/conformance/tabs.test.ts',
  'test/examples/**/*.test.ts',
  'test/packages/**/*.test.ts',
];

/** The files in real browsers that `npm test` runs; `npm run test:full` runs all. */
const SMOKE = [
  'test/tabs/library/library.test.ts',
  'test/tabs/links/links.test.ts',
  'test/tabs/app/ring.test.ts',
  'test/tabs/training/training.test.ts',
  'test/firefox/pages.test.ts',
];

/** Short files that run for long. Vitest takes the largest files first, and would have a core wait for these at the end. */
const LONGEST = [
  'test/membership/schedules.test.ts',
  'test/membership/recovery.test.ts',
  'test/firefox/training.test.ts',
  'test/tabs/app/pages.test.ts',
];

const isLongest = ({ moduleId }: TestSpecification): boolean => LONGEST.some((file) => moduleId.endsWith(file));

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rest = await super.sort(files);
    return [...files.filter(isLongest), ...rest.filter((file) => !isLongest(file))];
  }
}

/** Kernels on WebGPU in Node. The setup file opens the GPU for all files of a worker. */
const ON_GPU = ['test/gpu/**/*.test.ts'];

const IN_BROWSERS = {
  globalSetup: ['test/tabs/harness/globalSetup.ts'],
  // Tests in browsers delay each other if they run side by side.
  fileParallelism: false,
  // Deadlines for machines that are busy with other work.
  testTimeout: 60_000,
  hookTimeout: 60_000,
  expect: { poll: { timeout: 20_000 } },
};

export default defineConfig({
  test: {
    sequence: { sequencer: LongestFirst },
    // Modules are loaded once for all files of a worker: loading TensorFlow.js for each takes a quarter of the tests' time.
    isolate: false,
    projects: [
      {
        extends: true,
        test: {
          name: 'node',
          include: ['test/**/*.test.ts'],
          exclude: [...IN_TABS, ...ON_GPU],
          setupFiles: ['test/cpuBackend.ts'],
          // As many as the smallest machine these run on has cores; vitest would leave one idle.
          maxWorkers: 2,
          sequence: { groupOrder: 0 },
        },
      },
      {
        extends: true,
        test: {
          name: 'gpu',
          include: ON_GPU,
          setupFiles: ['test/gpu/kernels/setup.ts'],
          // The compilation of shaders is most of the time, and takes one core of a worker.
          maxWorkers: 2,
          testTimeout: 60_000,
          sequence: { groupOrder: 1 },
        },
      },
      { extends: true, test: { ...IN_BROWSERS, name: 'smoke', include: SMOKE, sequence: { groupOrder: 2 } } },
      {
        extends: true,
        test: { ...IN_BROWSERS, name: 'tabs', include: IN_TABS, exclude: SMOKE, sequence: { groupOrder: 3 } },
      },
    ],
    setupFiles: ['test/setup.ts'],
    testTimeout: 20_000,
  },
});
