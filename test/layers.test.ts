/** The direction of imports (docs/ARCHITECTURE.md): a layer uses those named for it and nothing else of the project. */
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';

const ROOT = path.resolve(import.meta.dirname, '..');

const ALLOWED: Record<string, string[]> = {
  'src/util': [],
  'src/protocol': ['src/util'],
  'src/transport': ['src/protocol', 'src/util'],
  'src/collectives': ['src/telemetry', 'src/transport', 'src/protocol', 'src/util'],
  'src/parallel': ['src/collectives', 'src/optim', 'src/protocol', 'src/util'],
  'src/optim': ['src/protocol', 'src/util'],
  'src/jobs': ['src/protocol', 'src/util'],
  'src/telemetry': ['src/protocol', 'src/util'],
  'src/engine': [
    ...['src/jobs', 'src/optim', 'src/parallel', 'src/collectives', 'src/transport', 'src/telemetry'],
    ...['src/protocol', 'src/util'],
  ],
  'src/app': ['src/engine', 'src/jobs', 'src/optim', 'src/telemetry', 'src/collectives', 'src/protocol', 'src/util'],
  'src/testing': ['src/collectives', 'src/transport', 'src/util'],
  'src/index.ts': [
    'src/engine',
    'src/parallel',
    'src/optim',
    'src/jobs',
    'src/collectives',
    'src/protocol',
    'src/util',
  ],
  signaling: ['src/protocol', 'src/util'],
  launcher: ['signaling', 'src/protocol', 'src/util', 'examples'],
  // What a user of the library writes.
  examples: ['src/index.ts'],
  // Compares numbers of any layer with another program's.
  tools: [
    ...['src/engine', 'src/jobs', 'src/optim', 'src/parallel', 'src/collectives', 'src/testing'],
    ...['src/protocol', 'src/util'],
  ],
  // Node's part drives tabs; what runs in them measures any layer.
  bench: [
    ...[
      'launcher',
      'signaling',
      'src/engine',
      'src/jobs',
      'src/optim',
      'src/parallel',
      'src/collectives',
      'src/transport',
      'src/testing',
    ],
    ...['src/protocol', 'src/util'],
  ],
};

/**
 * Narrower than a folder: the app draws the ring plan, where the cost model takes it for what a codec sends, starts the engine, shows
 * what this browser keeps, plays the lesson alone by the lesson's rules, draws with the pen that digits are drawn with, and knows the rates of a range test; the launcher
 * knows the examples' names and what their page tells.
 */
const ONLY_FILES: Record<string, string[]> = {
  'src/app -> src/collectives': [
    ...['src/collectives/costModel.ts', 'src/collectives/codecs.ts', 'src/collectives/plans.ts'],
    'src/collectives/ringPlan.ts',
    ...['src/collectives/simulation/schedule.ts', 'src/collectives/simulation/simulate.ts'],
  ],
  'src/app -> src/engine': ['src/engine/checkpoints.ts', 'src/engine/lessonRound.ts', 'src/engine/page.ts'],
  'src/app -> src/jobs': ['src/jobs/pen.ts'],
  'src/app -> src/optim': ['src/optim/schedule.ts'],
  'src/parallel -> src/optim': ['src/optim/optimizer.ts'],
  'src/optim -> src/protocol': ['src/protocol/events.ts', 'src/protocol/names.ts'],
  'launcher -> examples': ['examples/catalogue.ts', 'examples/events.ts'],
};

/** Who may use a package that others must not know of. */
const PACKAGE_OWNERS: Record<string, RegExp> = {
  'simple-peer': /^src\/transport\/(peerLink|simplepeer\.d)\.ts$/,
  '@tensorflow/':
    /^(src\/(parallel\/(flatten|stagedGradients|stages|syncBatchNorm|tape)\.ts$|engine\/|jobs\/)|examples\/|tools\/torch-parity\/|bench\/(codecs\/trial\.ts$|step\/))/,
  // The benchmark's clients are no tabs.
  ws: /^(signaling|bench\/signaling)\//,
  redis: /^signaling\/shared\/redisLink\.ts$/,
  'prom-client': /^signaling\/metrics\.ts$/,
  send: /^signaling\//,
  'playwright-core': /^launcher\//,
  preact: /^src\/app\//,
};

const layerOf = (file: string): string => {
  const [top, second] = file.split('/');
  return top === 'src' ? `src/${second}` : top!;
};

const files = ['src', 'signaling', 'launcher', 'tools', 'bench', 'examples'].flatMap((folder) =>
  readdirSync(path.join(ROOT, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => /\.tsx?$/.test(name))
    .map((name) => `${folder}/${name.replaceAll(path.sep, '/')}`),
);

const IMPORT = /(?:^|[\s;])(?:import|export)\s(?:[^'"]*?\sfrom\s)?['"]([^'"]+)['"]|import\(\s*['"]([^'"]+)['"]\s*\)/g;

const importsOf = (file: string): string[] =>
  Array.from(readFileSync(path.join(ROOT, file), 'utf8').matchAll(IMPORT), (match) => match[1] ?? match[2]!);

describe('imports', () => {
  test('are found', () => {
    expect(files.length).toBeGreaterThan(50);
    expect(importsOf('src/transport/peerLink.ts')).toContain('simple-peer/simplepeer.min.js');
  });

  test.each(files)('%s', (file) => {
    const layer = layerOf(file);
    expect(Object.keys(ALLOWED)).toContain(layer);
    for (const specifier of importsOf(file)) {
      if (specifier.startsWith('.')) {
        const target = path.posix.normalize(path.posix.join(path.posix.dirname(file), specifier));
        const targetLayer = layerOf(target);
        if (targetLayer === layer) continue;
        expect(ALLOWED[layer], `${file} imports ${specifier}`).toContain(targetLayer);
        const only = ONLY_FILES[`${layer} -> ${targetLayer}`];
        if (only) expect(only, `${file} imports ${specifier}`).toContain(target);
      } else {
        for (const [name, owner] of Object.entries(PACKAGE_OWNERS)) {
          const isIt = name.endsWith('/') ? specifier.startsWith(name) : specifier.split('/')[0] === name;
          if (isIt) expect(file, `${file} imports ${specifier}`).toMatch(owner);
        }
      }
    }
  });
});
