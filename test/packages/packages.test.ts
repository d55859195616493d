/**
 * The two packages as npm packs them, in projects of users: the documents' examples on pages of
 * Vite and on a page without a bundler, a test in Node, the server, and the library's size.
 */
import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readdir, readFile, realpath, rm, symlink, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { gzipSync } from 'node:zlib';
import { publint } from 'publint';
import { formatMessage } from 'publint/utils';
import send from 'send';
import { build, transformWithOxc, type Rolldown } from 'vite';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import type { Browser, BrowserContext, Page } from 'playwright-core';
import { closeBrowser, launchBrowser } from '../../launcher/browser/browser.ts';
import { writeDigits } from '../examples/digitFiles.ts';
import { violationsOn } from '../tabs/harness/axe.ts';
import { PAGES, documentDiffs, startVite, writePages } from './readmePages.ts';

const ROOT = path.resolve(import.meta.dirname, '../..');
/** Milliseconds to pack and to install, with nothing in npm's cache. */
const INSTALL_MS = 300_000;
const PACKAGES = ['peergrad', 'peergrad-cli'];
/** Part by which a size may differ from the document's. */
const SIZE_TOLERANCE = 0.05;

/** index.html of Vite's template vanilla-ts. */
const VITE_HTML = `<!doctype html>
<html lang="en">
  <head>
    <meta charset="UTF-8" />
    <title>vanilla-ts</title>
  </head>
  <body>
    <div id="app"></div>
    <script type="module" src="/src/main.ts"></script>
  </body>
</html>`;

/** A page that trains in a worker. */
const HOST_HTML = '<!doctype html><title>host</title><script type="module" src="/src/host.ts"></script>';
const HOST_TS = `
import { hostWorker } from 'peergrad/worker';
hostWorker(new Worker(new URL('./main.ts', import.meta.url), { type: 'module' }));
`;

/** What docs/features/library.md shows for pages without a bundler. */
const plainHtml = (imports: string): string => `<!doctype html>
<title>plain</title>
<script type="importmap">${imports}</script>
<script type="module" src="/plain.js"></script>`;

/** Reports what the training loop has trained. */
const REST_OF_MAIN = `
const inModel = await Promise.all(model.getWeights().map(async (weight) => Array.from(await weight.data())));
const others = Array.from({ length: group.worldSize }, (_, rank) => rank).filter((rank) => rank !== group.rank);
const links = await Promise.all(others.map((rank) => group.describeLink(rank)));
const trained = { parameters: Array.from(ddp.parameters), inModel };
Object.assign(globalThis, { result: { routes: links.map((link) => link?.route), backend: tf.getBackend(), trained } });
`;

const AWAIT_RESULT = `new Promise((resolve) => {
  const look = setInterval(() => 'result' in globalThis && (clearInterval(look), resolve(globalThis.result)), 50);
})`;

/** A thread leaves this in `globalThis.result`. */
interface Result {
  /** Route of the link to each other rank; undefined if the ring has no such link. */
  routes: (string | undefined)[];
  backend: string;
  trained: { parameters: number[]; inModel: number[][] };
}

/** A user's test without a browser. */
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

/** Uses the element's types. A declaration that is not found is `any`, and has no errors. */
const ELEMENT_TS = `import { initProcessGroup, type ElasticOptions, type ProcessGroup } from 'peergrad';
import { PeergradRoom, type RoomHandlers } from 'peergrad/element';

const element: PeergradRoom = document.createElement('peergrad-room');
const found: PeergradRoom | null = document.querySelector('peergrad-room');
export const handlers: RoomHandlers = (found ?? new PeergradRoom()).handlers;
export const options: ElasticOptions = { nodes: { min: 1, max: 8 }, ...handlers };
export const join = (): Promise<ProcessGroup> => initProcessGroup({ worldSize: 4, ...handlers });
element.received = 0.5;
element.worldSize = null;
// @ts-expect-error
element.worldSize = '4';
// @ts-expect-error
element.absent = 1;
// @ts-expect-error
handlers.onmembers('2', 4);
// @ts-expect-error
handlers.onprogress(1);
`;

/** The strictest settings that a user of Vite may have. */
const TSCONFIG = {
  compilerOptions: {
    ...{ target: 'ES2023', lib: ['ES2023', 'DOM', 'DOM.Iterable'], module: 'ESNext', moduleResolution: 'Bundler' },
    ...{ types: ['vite/client'], allowJs: true, checkJs: true, noEmit: true, verbatimModuleSyntax: true },
    ...{ strict: true, noUncheckedIndexedAccess: true, exactOptionalPropertyTypes: true, noUnusedLocals: true },
    ...{ noUnusedParameters: true, noPropertyAccessFromIndexSignature: true, noUncheckedSideEffectImports: true },
    skipLibCheck: true,
  },
  include: ['src', 'world.js'],
};

let folder: string;
/** Tarballs by the name of their package. */
let tarballs: Record<string, string>;
/** A page's project with the library; and a folder with the launcher. */
let project: string;
let launcher: string;
let browser: Browser;

beforeAll(async () => {
  // The real path: where the temporary folder is a link, Vite would know each file by two names.
  folder = await realpath(await mkdtemp(path.join(tmpdir(), 'peergrad-packages-')));
  [project, launcher] = [path.join(folder, 'project'), path.join(folder, 'launcher')];
  const workspaces = PACKAGES.flatMap((name) => ['--workspace', name]);
  await run(ROOT, 'npm', 'pack', ...workspaces, '--pack-destination', folder);
  const names = await readdir(folder);
  tarballs = Object.fromEntries(
    PACKAGES.map((name) => [
      name,
      path.join(
        folder,
        names.find((file) => new RegExp(`^${name}-\\d`).test(file))!,
      ),
    ]),
  );
  await Promise.all([install(project, tarballs['peergrad']!), install(launcher, tarballs['peergrad-cli']!)]);
  for (const name of ['@tensorflow', 'vite'])
    await symlink(path.join(ROOT, 'node_modules', name), path.join(project, 'node_modules', name), 'dir');
  browser = await launchBrowser();
}, INSTALL_MS);

afterAll(async () => {
  await closeBrowser(browser);
  await rm(folder, { recursive: true });
});

/** Installs a package in an empty folder, without its peers. */
async function install(target: string, tarball: string): Promise<void> {
  await mkdir(target);
  await writeFile(path.join(target, 'package.json'), JSON.stringify({ type: 'module', private: true }));
  const args = ['install', tarball, '--legacy-peer-deps', '--no-audit', '--no-fund'];
  // What npm has cached may be older than a release that package.json asks for.
  await run(target, 'npm', ...args, '--prefer-offline').catch(() => run(target, 'npm', ...args, '--prefer-online'));
}

/** Writes the files of the page's project. */
async function writeProject(server: string, room: string): Promise<void> {
  await mkdir(path.join(project, 'src'), { recursive: true });
  const main = (await trainingLoop(server, room)) + REST_OF_MAIN;
  const files = {
    'index.html': VITE_HTML,
    'src/main.ts': main,
    'host.html': HOST_HTML,
    'src/host.ts': HOST_TS,
    'src/element.ts': ELEMENT_TS,
    'vite.config.ts': await inDocument(/```ts\n(import { defineConfig } from 'vite';\n.*?)```/s),
    'plain.html': plainHtml(await inDocument(/<script type="importmap">\n(.*?)<\/script>/s)),
    'plain.js': (await transformWithOxc(main, 'main.ts')).code,
    'world.js': WORLD_JS,
    'tsconfig.json': JSON.stringify(TSCONFIG),
  };
  for (const [name, text] of Object.entries(files)) await writeFile(path.join(project, name), text);
}

/** Returns the document's training loop for a server and a room. */
async function trainingLoop(server: string, room: string): Promise<string> {
  const block = await inDocument(/## Training loop\n.*?```ts\n(.*?)```/s);
  expect(block).toContain("server: location.origin, room: 'K7F-3QX'");
  return block.replace('location.origin', JSON.stringify(server)).replace("'K7F-3QX'", JSON.stringify(room));
}

/** Returns the group of a pattern that occurs in the library's document. */
async function inDocument(pattern: RegExp): Promise<string> {
  return pattern.exec(await readFile(path.join(ROOT, 'docs/features/library.md'), 'utf8'))![1]!;
}

/** Runs a program and returns its stdout. @throws an Error with its whole output if it fails. */
async function run(cwd: string, program: string, ...args: string[]): Promise<string> {
  try {
    return (await promisify(execFile)(program, args, { cwd, timeout: INSTALL_MS })).stdout;
  } catch (error) {
    const { stdout = '', stderr = '' } = error as { stdout?: string; stderr?: string };
    throw new Error(`${program} ${args.join(' ')} failed:\n${stdout}${stderr}`, { cause: error });
  }
}

/**
 * Serves the project's folder, as any web server does. Pages that Vite built are in dist/. Adds the
 * paths of requests to `requests`.
 */
async function serveProject(): Promise<{ server: Server; url: string; requests: string[] }> {
  const requests: string[] = [];
  const server = createServer((request, response) => {
    requests.push(request.url!);
    send(request, request.url!, { root: project }).pipe(response);
  });
  server.listen(0, 'localhost');
  await once(server, 'listening');
  return { server, url: `http://localhost:${(server.address() as AddressInfo).port}`, requests };
}

/** Starts `npx peergrad-cli serve`. Resolves with the address and the room that it prints. */
async function startLauncher(...args: string[]): Promise<{ child: ChildProcess; url: string; room: string }> {
  const command = ['peergrad-cli', 'serve', '--port', '0', ...args];
  // In its own group, so that the process that npx starts ends with it.
  const child = spawn('npx', command, { cwd: launcher, stdio: ['ignore', 'pipe', 'inherit'], detached: true });
  const ended = once(child, 'exit').then(([code]) => {
    throw new Error(`peergrad-cli serve ended with ${code} before it printed its address`);
  });
  const [line] = (await Promise.race([once(child.stdout.setEncoding('utf8'), 'data'), ended])) as [string];
  ended.catch(() => {});
  const { origin, hash } = new URL(line.split('\n')[0]!);
  return { child, url: origin, room: hash.slice(1) };
}

test('the library installs at most three packages besides TensorFlow.js', async () => {
  const lock = await readFile(path.join(project, 'node_modules/.package-lock.json'), 'utf8');
  const { packages } = JSON.parse(lock) as { packages: Record<string, unknown> };
  expect(Object.keys(packages)).toContain('node_modules/peergrad');
  expect(Object.keys(packages).length).toBeLessThanOrEqual(3);
});

test.each(PACKAGES)('publint finds no problem in %s', async (name) => {
  const { buffer } = new Uint8Array(await readFile(tarballs[name]!));
  const { messages, pkg } = await publint({ pack: { tarball: buffer } });
  expect(messages.map((message) => formatMessage(message, pkg))).toEqual([]);
});

test('arethetypeswrong finds no problem in the library', { timeout: 60_000 }, async () => {
  // It has ES modules only, like Vite and current versions of TypeScript.
  const checked = run(ROOT, 'node_modules/.bin/attw', tarballs['peergrad']!, '--profile', 'esm-only');
  await expect(checked).resolves.toContain('peergrad');
});

test(
  'the training loop trains one model in a page and a worker built by Vite, and in a page without a bundler',
  { timeout: 120_000 },
  async () => {
    const { server, url, requests } = await serveProject();
    const launched = await startLauncher('--start-at', '3', '--origin', url);
    const context = await browser.newContext();
    try {
      const html = await (await fetch(launched.url)).text();
      const script = /src="(.*?\.js)"/.exec(html)![1]!;
      expect((await fetch(new URL(script, launched.url))).status).toBe(200);
      const licences = await (await fetch(new URL('THIRD-PARTY-LICENSES.txt', launched.url))).text();
      // Packages in the page, and packages in its worker.
      for (const name of ['preact', '@tensorflow/tfjs-core', 'h5wasm']) expect(licences).toContain(`\n${name} `);

      await writeProject(launched.url, launched.room);
      // With the project's vite.config.ts, which has the settings of the document.
      await build({
        root: project,
        base: './',
        logLevel: 'error',
        build: { rolldownOptions: { input: ['index.html', 'host.html'].map((name) => path.join(project, name)) } },
      });
      await context.grantPermissions(['microphone']);
      const train = async (page: string): Promise<Result & { losses: number[] }> => {
        const tab = await context.newPage();
        const losses: number[] = [];
        tab.on('console', (message) => message.type() === 'log' && losses.push(Number(message.text())));
        const broken = new Promise<never>((_, reject) => tab.once('pageerror', reject));
        await tab.goto(`${url}/${page}`);
        const inWorker = async () =>
          (tab.workers()[0] ?? (await tab.waitForEvent('worker'))).evaluate<Result>(AWAIT_RESULT);
        const result = page === 'dist/host.html' ? inWorker() : tab.evaluate<Result>(AWAIT_RESULT);
        return { ...(await Promise.race([result, broken])), losses };
      };
      const results = await Promise.all(['dist/index.html', 'dist/host.html', 'plain.html'].map(train));

      for (const { backend, trained, losses } of results) {
        expect(backend).toBe('webgpu');
        expect(trained).toEqual(results[0]!.trained);
        expect(losses).toEqual(results[0]!.losses);
      }
      // By the broker that is in the package. Pages of different builds have different brokers.
      expect(results.map(({ routes }) => routes.filter((route) => route === 'memory').length)).toEqual([1, 1, 0]);
      // The page without a bundler loads the library as one file.
      expect(requests.filter((file) => file.includes('/peergrad/')).toSorted()).toEqual(
        ['brokerWorker', 'peergrad', 'pulseWorker'].map((name) => `/node_modules/peergrad/dist/${name}.js`),
      );
      const [{ losses, trained }] = results as [Result & { losses: number[] }];
      expect(trained.parameters).toHaveLength(110);
      expect(losses).toHaveLength(30);
      expect(losses.at(-1)).toBeLessThan(losses[0]! / 2);
      // Flat order is reversed: bias, then kernel.
      expect(trained.inModel.toReversed().flat()).toEqual(trained.parameters);
    } finally {
      await context.close();
      process.kill(-launched.child.pid!);
      server.close();
    }
  },
);

test(
  "README's lines let four tabs of a new Vite project train one model, by `server` and by a proxy",
  { timeout: 120_000 },
  async () => {
    const added = (await documentDiffs()).map((hunks) => hunks.flat().filter((line) => line.startsWith('+')).length);
    expect(added).toEqual([3, 3]);
    const launched = await startLauncher();
    onTestFinished(() => void process.kill(-launched.child.pid!));
    const root = path.join(project, 'fresh');
    await writePages(root, new URL(launched.url).port);
    await mkdir(path.join(root, 'public/data'), { recursive: true });
    await writeDigits(path.join(root, 'public/data'));
    const url = await startVite(root, { configFile: false });
    // The page's default backend is WebGL. A browser compiles the shaders of its tabs one after the
    // other, for about 4 s per tab, so three tabs compute on the CPU.
    const withoutWebGl = await launchBrowser({ backend: 'wasm', flags: ['--disable-software-rasterizer'] });
    onTestFinished(() => closeBrowser(withoutWebGl));
    const [onWebGl, onCpu] = await Promise.all([browser.newContext(), withoutWebGl.newContext()]);
    onTestFinished(() => onWebGl.close());

    const silent = await openPage(onCpu, `${url}${PAGES.element}`);
    await silent.getByText('is no signaling server').getByText('`npx peergrad-cli serve`').waitFor();
    await silent.close();

    const first = await openPage(onWebGl, `${url}${PAGES.server}`);
    await first.getByText('1 of 4 ranks is present').waitFor();
    expect(await violationsOn(first, 'peergrad-room')).toEqual([]);
    const link = await first.getByRole('link').innerText();
    expect(link).toBe(first.url());
    const second = await openPage(onCpu, link);
    await first.getByText('2 of 4 ranks are present').waitFor();
    // It uses the dependencies that the other one has bundled for the page.
    const proxied = await startVite(root);
    const others = Array.from({ length: 2 }, () => openPage(onCpu, `${proxied}${PAGES.lines}${new URL(link).hash}`));
    const tabs = [first, second, ...(await Promise.all(others))];
    const logs = await Promise.all(
      tabs.map(async (page) => {
        await page.getByText('trained').waitFor();
        return (await page.locator('#log').innerText()).trim().split('\n');
      }),
    );
    for (const log of logs) expect(log).toEqual(logs[0]);
    const losses = logs[0]!.slice(0, 3).map((line) => Number(/loss ([\d.]+)/.exec(line)![1]));
    expect(losses).toEqual(losses.toSorted((a, b) => b - a));
    await second.getByText('4 of 4 ranks are present').waitFor();
    expect(await second.getByRole('link').isVisible()).toBe(false);
  },
);

async function openPage(context: BrowserContext, url: string): Promise<Page> {
  // Without this permission, WebRTC hides local IP addresses behind mDNS names.
  await context.grantPermissions(['microphone']);
  const page = await context.newPage();
  await page.goto(url);
  return page;
}

test("the training loop and the package's declarations compile in strict TypeScript", async () => {
  const tsc = path.join(ROOT, 'node_modules/typescript/bin/tsc');
  await run(project, process.execPath, tsc);
  // What declarations import and do not find is `any` above, without a word. TensorFlow.js's own do
  // not hold.
  const everything = await run(project, process.execPath, tsc, '--skipLibCheck', 'false').catch(String);
  expect(everything).not.toContain('node_modules/peergrad/');
});

test('a world of several ranks can run in one process of plain Node', async () => {
  expect((await run(project, process.execPath, 'world.js')).trim().split('\n').at(-1)).toBe('[[3,3],[3,3],[3,3]]');
});

test('a page built by Vite needs no settings, has the workers it needs, and has the documented size', async () => {
  const [names, ...numbers] = await Promise.all(
    [/`import (\{[^`]*\})` adds/, /adds (\d+) kB/, /everything (\d+) kB/, /the element (\d+) kB/].map(inDocument),
  );
  const [some, all, element] = numbers.map(Number);
  const sizes = [
    await gzippedKilobytes(`import ${names} from 'peergrad'; console.log(${names});`, ['broker', 'pulse']),
    await gzippedKilobytes("import * as peergrad from 'peergrad'; console.log({ ...peergrad });", [
      'broker',
      'picture',
      'pulse',
    ]),
  ];
  for (const [i, documented] of [some!, all!].entries())
    expect(Math.abs(sizes[i]! / documented - 1), `${sizes[i]} kB, not ${documented} kB`).toBeLessThan(SIZE_TOLERANCE);
  // The import defines the element, so a bundler must keep it although no name is imported.
  expect(Math.round(await gzippedKilobytes("import 'peergrad/element';", []))).toBe(element);
});

/**
 * Size of a program's scripts and of its workers after Vite has built it, without
 * TensorFlow.js.
 */
async function gzippedKilobytes(program: string, itsWorkers: readonly string[]): Promise<number> {
  const input = path.join(project, 'size.js');
  await writeFile(input, program);
  const external = /^@tensorflow\//;
  const built = await build({
    root: project,
    configFile: false,
    logLevel: 'error',
    build: { write: false, rolldownOptions: { input, external } },
  });
  const { output } = built as Rolldown.RolldownOutput;
  // Vite builds every worker that a module can start, before it drops unused code. Without
  // settings, versions before 8 cannot build a worker that imports a module dynamically.
  const workers = output.flatMap(({ type, fileName }) => (type === 'asset' ? [path.basename(fileName)] : [])).sort();
  expect(workers).toEqual(itsWorkers.map((name) => expect.stringMatching(new RegExp(`^${name}Worker-.*\\.js$`))));
  const bytes = output.map((file) => gzipSync(file.type === 'chunk' ? file.code : file.source).length);
  return bytes.reduce((sum, size) => sum + size, 0) / 1000;
}
