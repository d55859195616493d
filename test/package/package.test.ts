/**
 * The package as npm packs it, in a project of somebody's own: README's example, a test in Node,
 * the launcher.
 */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readdir, readFile, realpath, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { launchBrowser } from '../../launcher/browser/browser.ts';
import { startSignaling } from '../../signaling/index.ts';
import { DEFAULT_JOB } from '../../src/spec/job.ts';

const ROOT = path.resolve(import.meta.dirname, '../..');
/** Milliseconds to pack and to install, with nothing in npm's cache. */
const INSTALL_MS = 300_000;

const INDEX_HTML = '<!doctype html><title>ten lines</title><script type="module" src="/main.ts"></script>';

/** Reports what README's lines have trained. */
const REST_OF_MAIN = `
const inModel = await Promise.all(model.getWeights().map(async (weight) => Array.from(await weight.data())));
const route = (await group.describeLink(1 - group.rank))?.route;
Object.assign(globalThis, { trained: { route, backend: tf.getBackend(), parameters: Array.from(ddp.parameters), inModel } });
`;

/** What main.ts leaves in its page. */
interface Trained {
  /** To the other rank. */
  route: string;
  backend: string;
  parameters: number[];
  inModel: number[][];
}

/** A test of a user's, without a browser. */
const WORLD_JS = `
import * as tf from '@tensorflow/tfjs';
import { DistributedDataParallel } from 'peergrad';
import { runWorld } from 'peergrad/testing';

const sums = await runWorld(3, async (group) => {
  const model = tf.sequential({ layers: [tf.layers.dense({ units: 1, inputShape: [1] })] });
  const ddp = await DistributedDataParallel.create(model, group);
  await group.allReduce(ddp.parameters.fill(group.rank));
  return Array.from(ddp.parameters);
});
console.log(JSON.stringify(sums));
`;

/** As strict as a user of Vite can be. */
const TSCONFIG = {
  compilerOptions: {
    ...{ target: 'ES2023', lib: ['ES2023', 'DOM', 'DOM.Iterable'], module: 'ESNext', moduleResolution: 'Bundler' },
    ...{ types: ['vite/client'], allowJs: true, checkJs: true, noEmit: true, verbatimModuleSyntax: true },
    ...{ strict: true, noUncheckedIndexedAccess: true, exactOptionalPropertyTypes: true, noUnusedLocals: true },
    ...{ noUnusedParameters: true, noPropertyAccessFromIndexSignature: true, noUncheckedSideEffectImports: true },
    skipLibCheck: true,
  },
};

let folder: string;
let project: string;

beforeAll(async () => {
  // The real path: where the temporary folder is a link, Vite would know each file by two names.
  folder = await realpath(await mkdtemp(path.join(tmpdir(), 'peergrad-package-')));
  project = path.join(folder, 'project');
  await mkdir(project);
  await run(ROOT, 'npm', 'pack', '--pack-destination', folder);
  const tarball = (await readdir(folder)).find((name) => name.endsWith('.tgz'))!;
  const { devDependencies } = await readJson(path.join(ROOT, 'package.json'));
  const files = {
    'package.json': JSON.stringify({
      ...{ type: 'module', private: true },
      dependencies: {
        peergrad: `file:../${tarball}`,
        '@tensorflow/tfjs': devDependencies['@tensorflow/tfjs'],
        '@tensorflow/tfjs-backend-webgpu': devDependencies['@tensorflow/tfjs-backend-webgpu'],
      },
      devDependencies: { vite: devDependencies['vite'] },
    }),
    'index.html': INDEX_HTML,
    'main.ts': (await readmeLines()) + REST_OF_MAIN,
    'world.js': WORLD_JS,
    'tsconfig.json': JSON.stringify(TSCONFIG),
  };
  for (const [name, text] of Object.entries(files)) await writeFile(path.join(project, name), text);
  const install = (prefer: string) => run(project, 'npm', 'install', prefer, '--no-audit', '--no-fund');
  // What npm has cached may be older than a release that package.json asks for.
  await install('--prefer-offline').catch(() => install('--prefer-online'));
}, INSTALL_MS);

afterAll(() => rm(folder, { recursive: true }));

/** README's block of TypeScript; the room's code comes from the page's address. */
async function readmeLines(): Promise<string> {
  const block = /```ts\n(.*?)```/s.exec(await readFile(path.join(ROOT, 'README.md'), 'utf8'))?.[1] ?? '';
  expect(block).toContain("room: 'K7F-3QX'");
  return block.replace("'K7F-3QX'", 'location.hash.slice(1)');
}

async function readJson(file: string): Promise<{ devDependencies: Record<string, string> }> {
  return JSON.parse(await readFile(file, 'utf8')) as { devDependencies: Record<string, string> };
}

/**
 * Runs a program to its end; its stdout. @throws an Error with all that it printed where it fails.
 */
async function run(cwd: string, program: string, ...args: string[]): Promise<string> {
  try {
    return (await promisify(execFile)(program, args, { cwd, timeout: INSTALL_MS })).stdout;
  } catch (error) {
    const { stdout = '', stderr = '' } = error as { stdout?: string; stderr?: string };
    throw new Error(`${program} ${args.join(' ')} failed:\n${stdout}${stderr}`, { cause: error });
  }
}

test("README's code and the package's declarations compile under strict TypeScript", async () => {
  const tsc = path.join(ROOT, 'node_modules/typescript/bin/tsc');
  await run(project, process.execPath, tsc);
  // What declarations import and do not find is `any` above, without a word. TensorFlow.js's own do
  // not hold.
  const everything = await run(project, process.execPath, tsc, '--skipLibCheck', 'false').catch(String);
  expect(everything).not.toContain('node_modules/peergrad/');
});

test("README's code trains one model in two tabs of a page built by Vite", { timeout: 60_000 }, async () => {
  await run(project, 'npm', 'exec', '--', 'vite', 'build');
  const server = await startSignaling({ dist: path.join(project, 'dist') });
  const browser = await launchBrowser();
  try {
    const room = server.createRoom({ job: DEFAULT_JOB, startAt: 2 });
    const context = await browser.newContext();
    await context.grantPermissions(['microphone']);
    const train = async () => {
      const page = await context.newPage();
      const losses: number[] = [];
      page.on('console', (message) => message.type() === 'log' && losses.push(Number(message.text())));
      const broken = new Promise<never>((_, reject) => page.once('pageerror', reject));
      await page.goto(`${server.url}/#${room}`);
      await Promise.race([page.waitForFunction(() => 'trained' in globalThis), broken]);
      return { losses, ...(await page.evaluate<Trained>('trained')) };
    };
    const [one, two] = await Promise.all([train(), train()]);

    expect(one.backend).toBe('webgpu');
    // By the broker that is in the package.
    expect(one.route).toBe('memory');
    expect(one.parameters).toHaveLength(110);
    expect(one.losses).toHaveLength(30);
    expect(one.losses.at(-1)).toBeLessThan(one.losses[0]! / 2);
    expect(two).toEqual(one);
    // Flat order is reversed: bias, then kernel.
    expect(one.inModel.toReversed().flat()).toEqual(one.parameters);
  } finally {
    await browser.close();
    await server.close();
  }
});

test('a world of several ranks runs in one process of plain Node', async () => {
  expect((await run(project, process.execPath, 'world.js')).trim().split('\n').at(-1)).toBe('[[3,3],[3,3],[3,3]]');
});

test('the packed launcher serves the page that is in the same package', async () => {
  const bin = path.join(project, 'node_modules/.bin/peergrad');
  const child = spawn(process.execPath, [bin, 'serve', '--port', '0'], { stdio: ['ignore', 'pipe', 'inherit'] });
  const exited = once(child, 'exit');
  const ended = exited.then(([code]) => {
    throw new Error(`peergrad serve ended with ${code} before it printed its address`);
  });
  ended.catch(() => {});
  try {
    const [url] = (await Promise.race([once(child.stdout.setEncoding('utf8'), 'data'), ended])) as [string];
    const html = await (await fetch(url.trim())).text();
    const script = /src="(.*?\.js)"/.exec(html)![1]!;
    expect((await fetch(new URL(script, url.trim()))).status).toBe(200);
  } finally {
    child.kill();
    await exited;
  }
});
