/**
 * The examples' page. The URL `#` shows a list. `#sampler` opens a room for the default world size
 * of the example (`#sampler?tabs=3` for three tabs) and runs the example once all tabs have joined.
 * `#sampler?room=K7F3QX` joins that room. `#partitionedMnist?data=/data/` trains on the data files
 * that the server serves there.
 */
import '@tensorflow/tfjs-backend-webgpu';
import { destroyProcessGroup, initProcessGroup, type ProcessGroup } from '../src/index.ts';
import { CATALOGUE, type CatalogueEntry } from './catalogue.ts';
import type { ExampleEvent } from './events.ts';
import type { Example } from './example.ts';
import { drawPlot } from './plot.ts';

declare global {
  /** Sends events to the launcher; undefined if no launcher opened the page. */
  var peergradToLauncher: ((batch: string) => Promise<void>) | undefined;
}

/** Functions that load each example. An example is loaded only when it runs. */
const EXAMPLES = import.meta.glob<Example>(['./*.ts', '!./{page,plot,catalogue,example,events}.ts']);
/** Functions that load the source text of each example. */
const SOURCES = import.meta.glob<string>(['./*.ts', '!./{page,plot,catalogue,example,events}.ts'], {
  query: '?raw',
  import: 'default',
});

function element(id: string): HTMLElement {
  return document.querySelector<HTMLElement>(`#${id}`)!;
}

function show(id: string, text: string): void {
  element(id).textContent = text;
  element(id).hidden = false;
}

function report(event: ExampleEvent): void {
  // A launcher that is closing receives no more events, so errors are ignored.
  globalThis.peergradToLauncher?.(JSON.stringify([event])).catch(() => {});
}

function list(): void {
  for (const { name, about } of CATALOGUE) {
    const link = document.createElement('a');
    link.href = `#${name}`;
    link.append(Object.assign(document.createElement('strong'), { textContent: name }), about);
    const item = document.createElement('li');
    item.append(link);
    element('list').append(item);
  }
}

function invite(name: string, query: URLSearchParams, room: string, worldSize: number): void {
  report({ type: 'room', room, worldSize });
  if (worldSize === 1) return;
  const missing = worldSize === 2 ? 'another tab' : `${worldSize - 1} other tabs`;
  show('status', `Waiting for ${missing}. Open this link in a new tab or on another machine.`);
  const others = new URLSearchParams(query);
  others.delete('tabs');
  others.set('room', room);
  const address = new URL(`#${name}?${others}`, location.href).href;
  element('link').setAttribute('href', address);
  show('link', address);
}

function plot(title: string, curves: Parameters<typeof drawPlot>[2]): void {
  element('plot').hidden = false;
  element('plot').ariaLabel = `${title}: ${Object.keys(curves).join(', ')}`;
  drawPlot(element('plot'), title, curves);
}

async function run({ name, about }: CatalogueEntry, query: URLSearchParams): Promise<void> {
  document.title = `${name} · peergrad`;
  show('title', name);
  show('about', about);
  element('run').hidden = false;
  const room = query.get('room');
  show('status', room === null ? 'Opening a room …' : `Joining room ${room} …`);
  let group: ProcessGroup | null = null;
  try {
    show('code', await SOURCES[`./${name}.ts`]!());
    const example = await EXAMPLES[`./${name}.ts`]!();
    const tabs = /^[1-9]\d*$/.test(query.get('tabs') ?? '') ? Number(query.get('tabs')) : example.worldSize;
    group = await initProcessGroup({
      server: location.origin,
      ...(room === null ? { worldSize: tabs, onroom: (code) => invite(name, query, code, tabs) } : { room }),
    });
    const { rank, worldSize } = group;
    report({ type: 'joined', rank });
    element('link').hidden = true;
    show('status', `Rank ${rank} of ${worldSize} is running …`);
    show('output', '');
    const print = (line: string): void => {
      element('output').append(`${line}\n`);
      report({ type: 'line', line });
    };
    const folder = query.get('data');
    const data = folder === null ? null : new URL(folder, location.href).href;
    await example.main(group, print, { data, plot });
    show('status', `Rank ${rank} of ${worldSize} has finished.`);
    report({ type: 'finished' });
    await destroyProcessGroup(group);
  } catch (error) {
    const failure = error instanceof Error ? error : new Error(String(error));
    // Without this, the other ranks would wait for this rank.
    group?.abort(failure);
    element('status').hidden = true;
    element('link').hidden = true;
    show('failure', failure.message);
    report({ type: 'failed', message: failure.message });
  }
}

// A tab can be in only one room, so the page reloads for another URL.
addEventListener('hashchange', () => location.reload());

const [name, query] = location.hash.slice(1).split('?', 2);
const chosen = CATALOGUE.find((entry) => entry.name === name);
if (chosen === undefined) list();
else void run(chosen, new URLSearchParams(query));
