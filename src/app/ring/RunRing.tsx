/**
 * Shows the picture of a run: its members, the edges of a ring with what this rank knows about
 * them, and the replay of a round.
 */
import { useComputed } from '@preact/signals';
import { rightNeighbourOf } from '../../collectives/plans/ringPlan.ts';
import { isServedRoute } from '../../protocol/runEvents.ts';
import type { AllReduceName } from '../../spec/algorithms.ts';
import { edgeMegabytesPerSecond, ranksThatLeft, ringNeighboursOf, ownRank } from '../state/derive.ts';
import { describeTabState } from '../state/describeTabState.ts';
import { formatBytes } from '../locales/format.ts';
import type { RunView } from '../state/run.ts';
import type { TabView } from '../state/view.ts';
import { uiMessages } from '../locales/index.ts';
import { narrateFrame } from './narrate.ts';
import type { RingPlayer } from './player/player.ts';
import type { RingEdge } from './RingEdges.tsx';
import { RingView } from './RingView.tsx';
import { ServerIcon } from './ServerShape.tsx';
import type { RunPictureWithoutAllReduce } from '../state/strategies.ts';

interface Props {
  view: TabView;
  run: RunView;
  player: RingPlayer;
  /**
   * The algorithm to draw, or a description of what ranks do instead of an all-reduce of gradients.
   */
  picture: AllReduceName | RunPictureWithoutAllReduce;
}

export function RunRing({ view, run, player, picture }: Props) {
  const title = useComputed(() => {
    const frame = player.frame.value;
    return frame === null ? null : narrateFrame(frame, ownRank(view, run)).title;
  }).value;
  const round = player.round.value;
  const stateText = describeTabState(view);
  const gone = ranksThatLeft(run, view.lobby);
  const { ring } = uiMessages.value;
  const bytes = formatBytes(round?.trace.bytes ?? 0);
  const buckets = view.model?.bucketBytes.length ?? 0;
  const centre =
    round === null || title === null
      ? {
          top: '',
          title: run.worldSize === 1 ? ring.titles.alone : stateText.word,
          bottom: '',
        }
      : {
          top: ring.replay(round.trace.step + 1),
          title,
          bottom: buckets > 1 ? ring.bucket(round.trace.bucket + 1, buckets, bytes) : bytes,
        };
  const edges = edgesOf(run);
  const served = picture === 'ring' ? describeServed(run, edges) : null;
  const label = ring.membersOf(
    centre.title,
    typeof picture === 'string' ? picture : null,
    run.members.map((one) => one.name),
  );
  return (
    <>
      <RingView
        members={run.members.map((one, rank) => ({ name: one.name, pale: gone.includes(rank) }))}
        you={ownRank(view, run)}
        shape={typeof picture === 'string' ? picture : picture.lines}
        focus={run.rank}
        edges={edges}
        player={player}
        centre={centre}
        label={served === null ? label : `${label} ${served}`}
      />
      {served !== null && (
        <p class="legend dim small">
          <ServerIcon /> {served}
        </p>
      )}
    </>
  );
}

/** Returns a sentence about the links through the server; `null` if none is known. */
function describeServed({ worldSize, telemetry, links }: RunView, edges: readonly RingEdge[]): string | null {
  const count = edges.filter((edge) => edge.isServed === true).length;
  if (count === 0) return null;
  const routes = [
    ...(telemetry?.ranks ?? []).map(({ right }) => right?.route),
    ...Object.values(links).map(({ route }) => route),
  ];
  const isClear = routes.includes('server-clear');
  // Until the first exchange of statistics, the routes of other ranks are not known. A ring of two
  // ranks is drawn with two edges, but has one link.
  const isKnown = telemetry !== null || worldSize === 2;
  const [through, all] = worldSize === 2 ? [1, 1] : [count, worldSize];
  return uiMessages.value.ring.served(isKnown ? through : null, all, isClear);
}

/**
 * Returns the edges of the ring. This rank knows the state of its own links only, so the edges of
 * other ranks are drawn as connected. The speeds and routes of all links are known after an
 * exchange of statistics.
 */
function edgesOf(run: RunView): RingEdge[] {
  const rates = edgeMegabytesPerSecond(run);
  const ours = ringNeighboursOf(run.rank, run.worldSize);
  return run.members.map((_, from) => {
    const to = rightNeighbourOf(from, run.worldSize);
    const peer = from === run.rank ? to : to === run.rank ? from : null;
    const link = peer === null || !ours.includes(peer) ? undefined : run.links[peer];
    const up = peer === null || link?.up === true;
    const route = link?.route ?? run.telemetry?.ranks[from]?.right?.route;
    const rate = rates[from];
    const shown = [
      rate === null || rate === undefined ? '' : `${rate < 10 ? rate.toFixed(1) : Math.round(rate)} MB/s`,
      link?.up === true && link.route !== 'unknown' ? uiMessages.value.ring.routes[link.route] : '',
    ];
    const label = up ? shown.filter((word) => word !== '').join(' ') : uiMessages.value.ring.connecting;
    return { up, isServed: up && route !== undefined && isServedRoute(route), label };
  });
}
