/**
 * Checks the direction of imports (docs/ARCHITECTURE.md): a layer may import only the layers that
 * are listed for it here.
 */
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';

const ROOT = path.resolve(import.meta.dirname, '..');

const ALLOWED: Record<string, string[]> = {
  'src/util': [],
  'src/gpu': ['src/spec', 'src/util'],
  'src/wasm': ['src/optim', 'src/gpu', 'src/util'],
  'src/spec': ['src/util'],
  'src/protocol': ['src/spec', 'src/util'],
  'src/transport': ['src/protocol', 'src/util'],
  'src/telemetry': ['src/protocol', 'src/spec', 'src/util'],
  'src/collectives': ['src/telemetry', 'src/transport', 'src/protocol', 'src/spec', 'src/util'],
  'src/formats': ['src/protocol', 'src/spec', 'src/util'],
  'src/simulation': ['src/collectives', 'src/telemetry', 'src/protocol', 'src/spec', 'src/util'],
  'src/optim': ['src/protocol', 'src/spec', 'src/util'],
  'src/parallel': ['src/optim', 'src/collectives', 'src/wasm', 'src/gpu', 'src/protocol', 'src/spec', 'src/util'],
  'src/jobs': ['src/formats', 'src/gpu', 'src/protocol', 'src/spec', 'src/util'],
  'src/engine': [
    'src/jobs',
    'src/formats',
    'src/optim',
    'src/parallel',
    'src/wasm',
    'src/gpu',
    'src/collectives',
    'src/transport',
    'src/telemetry',
    'src/protocol',
    'src/spec',
    'src/util',
  ],
  'src/library': [
    'src/engine',
    'src/jobs',
    'src/formats',
    'src/optim',
    'src/parallel',
    'src/gpu',
    'src/collectives',
    'src/transport',
    'src/protocol',
    'src/spec',
    'src/util',
  ],
  'src/app': [
    'src/engine',
    'src/jobs',
    'src/formats',
    'src/optim',
    'src/parallel',
    'src/simulation',
    'src/telemetry',
    'src/collectives',
    'src/protocol',
    'src/spec',
    'src/util',
  ],
  'src/testing': ['src/collectives', 'src/transport', 'src/util'],
  'src/index.ts': [
    'src/library',
    'src/engine',
    'src/parallel',
    'src/optim',
    'src/jobs',
    'src/formats',
    'src/collectives',
    'src/protocol',
    'src/spec',
    'src/util',
  ],
  'src/dataParallel.ts': ['src/library'],
  'src/element.ts': ['src/library'],
  'src/keras.ts': ['src/library'],
  signaling: ['src/protocol', 'src/spec', 'src/util'],
  // The launcher prints its package's version.
  launcher: ['packages', 'signaling', 'src/formats', 'src/protocol', 'src/spec', 'src/util', 'examples'],
  // Examples import the library like programs of users.
  examples: ['src/index.ts', 'src/dataParallel.ts'],
  // Tools control tabs like the launcher. They also compare results of any layer with those of
  // other programs.
  tools: [
    'src/index.ts',
    'launcher',
    'signaling',
    'src/engine',
    'src/jobs',
    'src/formats',
    'src/optim',
    'src/parallel',
    'src/gpu',
    'src/collectives',
    'src/transport',
    'src/testing',
    'src/protocol',
    'src/spec',
    'src/util',
  ],
  // The part in Node controls tabs. The part in tabs measures any layer.
  bench: [
    'launcher',
    'tools',
    'signaling',
    'src/index.ts',
    'src/library',
    'src/engine',
    'src/jobs',
    'src/formats',
    'src/optim',
    'src/parallel',
    'src/library',
    'src/simulation',
    'src/gpu',
    'src/collectives',
    'src/transport',
    'src/testing',
    'src/protocol',
    'src/spec',
    'src/util',
  ],
};

/**
 * Pairs of layers: the first may import only these files of the second. The app uses plans and cost
 * estimates of all-reduces, the engine's client, its network check, the list of checkpoints, the
 * lesson for one tab, the pen of generated digits, the shapes of the language model, the rates of a
 * range test, the sizes of buckets, and the schedules of pipelines. The launcher uses the names and
 * events of the examples. Benchmarks share tables, charts, lines of a limited rate, the build of a
 * page and Firefox with the tools.
 */
const ONLY_FILES: Record<string, string[]> = {
  'src/app -> src/collectives': [
    'src/collectives/plans/algorithms.ts',
    'src/collectives/plans/planSteps.ts',
    'src/collectives/codecs.ts',
    'src/collectives/plans/plans.ts',
    'src/collectives/plans/ringPlan.ts',
  ],
  'src/app -> src/engine': [
    'src/engine/storage/checkpoints.ts',
    'src/engine/lesson/lessonRound.ts',
    'src/engine/networkCheck/candidates.ts',
    'src/engine/networkCheck/page.ts',
    'src/engine/page.ts',
  ],
  'src/app -> src/jobs': ['src/jobs/digits/pen.ts', 'src/jobs/gpt/shapes.ts'],
  'src/app -> src/optim': ['src/optim/schedule.ts'],
  'src/app -> src/parallel': [
    'src/parallel/flat/buckets.ts',
    'src/parallel/pipeline/cutLayers.ts',
    'src/parallel/pipeline/schedules.ts',
  ],
  'src/parallel -> src/optim': ['src/optim/index.ts', 'src/optim/optimizer.ts'],
  'src/optim -> src/protocol': ['src/protocol/runResult.ts'],
  'src/optim -> src/spec': ['src/spec/names.ts'],
  'bench -> tools': [
    'tools/buildPage.ts',
    'tools/firefox.ts',
    'tools/packages/licences.ts',
    'tools/report/plot.ts',
    'tools/report/table.ts',
    'tools/network/lineRelay.ts',
    'tools/network/turnServer.ts',
    'tools/torch-parity/python.ts',
  ],
  'launcher -> packages': ['packages/peergrad-cli/package.json'],
  'launcher -> examples': ['examples/catalogue.ts', 'examples/events.ts'],
};

/** Files that may import a package. All other files must not import it. */
const PACKAGE_OWNERS: Record<string, RegExp> = {
  'simple-peer': /^src\/transport\/(peerLink|simplepeer\.d)\.ts$/,
  '@tensorflow/':
    /^(src\/(gpu\/|wasm\/|parallel\/(backward\/|data\/dataLoader\.ts$|flat\/optimizerOf\.ts$|pipeline\/)|engine\/|library\/|jobs\/|formats\/)|examples\/|tools\/(torch-parity|elastic)\/|bench\/(gpu\/|peers\/|pipeline\/|step\/|training\/trial\.ts$))/,
  // Only compared with: no part of the page or of a package.
  '@jax-js/': /^bench\/peers\//,
  // The clients of the signaling benchmark run in Node, so they need this package.
  ws: /^(signaling|bench\/signaling)\//,
  redis: /^signaling\/cluster\/redisLink\.ts$/,
  'prom-client': /^signaling\/monitoring\/metrics\.ts$/,
  send: /^signaling\//,
  'playwright-core': /^(launcher|tools)\//,
  preact: /^src\/app\//,
  debug: /^src\/util\/debugLog\.ts$/,
  uqr: /^(src\/util\/qrCode|launcher\/output\/invitation)\.ts$/,
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

const VALUE_IMPORT = /^(?:import|export)\s(?!type\s)(?:[^'"]*?\sfrom\s)?['"]([^'"]+)['"]/gm;

/** Returns what is loaded with a file: its imports, without types and `import()`. */
const loadedWith = (file: string): string[] =>
  Array.from(readFileSync(path.join(ROOT, file), 'utf8').matchAll(VALUE_IMPORT), (match) => match[1]!);

const inProject = (file: string, specifiers: readonly string[]): string[] =>
  specifiers
    .filter((specifier) => specifier.startsWith('.'))
    .map((specifier) => path.posix.normalize(path.posix.join(path.posix.dirname(file), specifier)));

const projectImportsOf = (file: string): string[] => inProject(file, importsOf(file));

describe('imports', () => {
  test('are found in the sources', () => {
    expect(files.length).toBeGreaterThan(50);
    expect(importsOf('src/transport/peerLink.ts')).toContain('simple-peer/simplepeer.min.js');
  });

  test.each(files)('are allowed for the layer of %s', (file) => {
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

  test('let a tab join a room without loading TensorFlow.js, WebRTC and archives', () => {
    const loaded = new Set(['src/engine/worker.ts', 'src/engine/page.ts']);
    for (const file of loaded) for (const target of inProject(file, loadedWith(file))) loaded.add(target);
    expect(loaded).toContain('src/engine/membership/membership.ts');
    const packages = [...loaded].flatMap(loadedWith).filter((specifier) => !specifier.startsWith('.'));
    expect(new Set(packages)).toEqual(new Set(['valibot', 'debug', 'devalue']));
  });

  test('form no cycle between files', () => {
    expect(cyclesOf(new Map(files.map((file) => [file, projectImportsOf(file)])))).toEqual([]);
  });

  // A folder and the folders inside it are one subject, so imports between them are not counted.
  test('form no cycle between folders', () => {
    const folders = new Map<string, string[]>();
    for (const file of files.filter((name) => /^(src|signaling)\//.test(name))) {
      const folder = path.posix.dirname(file);
      const targets = projectImportsOf(file).map((target) => path.posix.dirname(target));
      const other = targets.filter(
        (target) => !`${target}/`.startsWith(`${folder}/`) && !folder.startsWith(`${target}/`),
      );
      folders.set(folder, [...(folders.get(folder) ?? []), ...other]);
    }
    expect(cyclesOf(folders)).toEqual([]);
  });
});

/** Returns the cycles that a depth-first search finds, each as a chain of names. */
function cyclesOf(graph: ReadonlyMap<string, readonly string[]>): string[] {
  const seen = new Map<string, 'open' | 'done'>();
  const cycles: string[] = [];
  const visit = (name: string, above: readonly string[]): void => {
    if (seen.get(name) === 'done') return;
    if (seen.get(name) === 'open') {
      cycles.push([...above.slice(above.indexOf(name)), name].join(' -> '));
      return;
    }
    seen.set(name, 'open');
    for (const target of graph.get(name) ?? []) visit(target, [...above, name]);
    seen.set(name, 'done');
  };
  for (const name of graph.keys()) visit(name, []);
  return cycles;
}
