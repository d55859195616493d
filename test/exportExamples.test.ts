/**
 * Type-checks the examples in the doc comments of the library's exports, and runs those that need
 * no browser: on two ranks in one process.
 */
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import * as peergrad from '../src/index.ts';

const ROOT = path.resolve(import.meta.dirname, '..');
const run = promisify(execFile);

/** Exports that need a page or a server: their examples are type-checked only. */
const IN_BROWSER = ['initProcessGroup', 'elastic', 'Trainer', 'openDevice', 'saveCheckpoint', 'imageFolder'];

/** Exports that users meet first. */
const MAIN = [
  ...['initProcessGroup', 'ProcessGroup', 'DistributedDataParallel', 'distribute', 'elastic', 'Trainer'],
  ...['DistributedSampler', 'DataLoader', 'DataPartitioner', 'ZeroRedundancyOptimizer', 'PipelineStage'],
  ...['createPowerSgdHook', 'fp16Hook', 'createOptimizer', 'allReduce', 'send', 'saveCheckpoint', 'saveSafetensors'],
  ...['imageFolder', 'table'],
];

interface Example {
  /** The export that the doc comment describes. */
  name: string;
  code: string;
}

const COMMENT = /\/\*\*((?:(?!\*\/)[\s\S])*)\*\/\nexport (?:async )?(?:class|function|const) (\w+)/g;
const BLOCK = /@example\n \* ```ts\n([\s\S]*?) \* ```/g;

async function examplesOf(file: string): Promise<Example[]> {
  const text = await readFile(path.join(ROOT, 'src', file), 'utf8');
  return [...text.matchAll(COMMENT)].flatMap(([, comment, name]) =>
    [...comment!.matchAll(BLOCK)].map(([, code]) => ({ name: name!, code: code!.replaceAll(/^ \* ?/gm, '') })),
  );
}

/** Returns a module with the example as a function of what examples may use. */
function moduleOf({ code }: Example): string {
  const names = Object.keys(peergrad).filter((name) => new RegExp(`\\b${name}\\b`).test(code));
  return `import * as tf from '@tensorflow/tfjs';
import { ${names.join(', ')}${names.includes('ProcessGroup') ? '' : ', type ProcessGroup'} } from 'peergrad';
export async function example(group: ProcessGroup, model: tf.Sequential, xs: tf.Tensor2D, ys: tf.Tensor2D) {
  {
${code}
  }
}
`;
}

/** Runs the examples one after the other on two ranks. */
const mainOf = (names: readonly string[]): string => `
import * as tf from '@tensorflow/tfjs';
import { runWorld } from ${JSON.stringify(pathToFileURL(path.join(ROOT, 'src/testing/index.ts')).href)};
for (const name of ${JSON.stringify(names)}) {
  await runWorld(2, async (group) => {
    const model = tf.sequential({ layers: [tf.layers.dense({ units: 10, inputShape: [10] })] });
    const { example } = await import('./' + name + '.ts');
    const [xs, ys] = [1, 2].map((seed) => tf.randomNormal([20, 10], 0, 1, 'float32', seed));
    await example(group, model, xs, ys);
  });
  console.log('ran ' + name);
}
`;

let folder: string;
let examples: Example[];

beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'peergrad-examples-'));
  const files = (await readdir(path.join(ROOT, 'src'), { recursive: true })).filter((file) => file.endsWith('.ts'));
  examples = (await Promise.all(files.map(examplesOf))).flat();
  const main = mainOf(examples.map(({ name }) => name).filter((name) => !IN_BROWSER.includes(name)));
  const { compilerOptions } = JSON.parse(await readFile(path.join(ROOT, 'tsconfig.json'), 'utf8')) as {
    compilerOptions: object;
  };
  const sources = await readdir(path.join(ROOT, 'src'), { recursive: true });
  const declarations = sources.filter((file) => file.endsWith('.d.ts')).map((file) => path.join(ROOT, 'src', file));
  const written = {
    'package.json': '{ "type": "module" }',
    'tsconfig.json': JSON.stringify({
      compilerOptions: { ...compilerOptions, noUnusedLocals: false, noUnusedParameters: false },
      files: [...declarations, ...examples.map(({ name }) => `${name}.ts`)],
    }),
    'main.ts': main,
    'node_modules/peergrad/package.json': '{ "type": "module", "exports": "./index.ts" }',
    'node_modules/peergrad/index.ts': `export * from ${JSON.stringify(path.join(ROOT, 'src/index.ts'))};\n`,
    ...Object.fromEntries(examples.map((example) => [`${example.name}.ts`, moduleOf(example)])),
  };
  await mkdir(path.join(folder, 'node_modules/peergrad'), { recursive: true });
  for (const name of await readdir(path.join(ROOT, 'node_modules'))) {
    if (name !== 'peergrad' && !name.startsWith('.'))
      await symlink(path.join(ROOT, 'node_modules', name), path.join(folder, 'node_modules', name), 'dir');
  }
  for (const [name, text] of Object.entries(written)) await writeFile(path.join(folder, name), text);
});

afterAll(() => rm(folder, { recursive: true }));

test('each of the main exports has one example', () => {
  const names = examples.map(({ name }) => name);
  expect(MAIN.filter((name) => !names.includes(name))).toEqual([]);
  expect(names.toSorted()).toEqual([...new Set(names)].toSorted());
  expect(names.filter((name) => !(name in peergrad))).toEqual([]);
});

test('all examples are correct TypeScript', { timeout: 120_000 }, async () => {
  const tsc = path.join(ROOT, 'node_modules/typescript/bin/tsc');
  const { stdout } = await run(process.execPath, [tsc, '-p', folder], { cwd: folder }).catch((error: unknown) => ({
    stdout: (error as { stdout: string }).stdout,
  }));
  expect(stdout).toBe('');
});

test('all examples that need no browser run on two ranks', { timeout: 120_000 }, async () => {
  const tsx = pathToFileURL(path.join(ROOT, 'node_modules/tsx/dist/loader.mjs')).href;
  const { stdout } = await run(process.execPath, ['--import', tsx, 'main.ts'], { cwd: folder });
  const ran = stdout.match(/^ran \w+$/gm) ?? [];
  expect(ran).toHaveLength(examples.length - IN_BROWSER.length);
});
