/**
 * Shows the time of a step on each rank, divided into computation, communication and other work.
 * All bars have the same scale, so that stragglers can be seen.
 */
import { formatMs } from '../locales/format.ts';
import { RankMark } from '../components/RankMark.tsx';
import { GlossaryTerm } from '../components/GlossaryTerm.tsx';
import { rankIdentityOf } from '../components/rankIdentity.ts';
import type { RunView } from '../state/run.ts';
import { uiMessages } from '../locales/index.ts';

/**
 * With more ranks than this, the list scrolls. The list can then have the focus, so that keys can
 * scroll it.
 */
const UNSCROLLED = 8;

/**
 * The page shows that samples are read if this takes at least SHOWN_PART of a step. It says that
 * reading limits the speed if it takes at least LIMITING_PART.
 */
const [SHOWN_PART, LIMITING_PART] = [0.02, 0.2];

export function StepTimesByRank({ run }: { run: RunView }) {
  const { run: labels } = uiMessages.value;
  const ranks = run.statistics?.ranks ?? [];
  const longest = Math.max(
    ...ranks.map((one) => Math.max(one.stepMs, one.dataMs + one.computeMs + one.communicateMs)),
    Number.EPSILON,
  );
  const dataPart = Math.max(0, ...ranks.map(({ dataMs, stepMs }) => dataMs / Math.max(stepMs, Number.EPSILON)));
  const part = (ms: number): string => `${((100 * ms) / longest).toFixed(2)}%`;
  return (
    <section class="lanes" aria-label={labels.whereStepGoes}>
      <p class="small lanes-title">
        <span>{labels.oneStep}</span>
        <span class="key">
          {dataPart >= SHOWN_PART && (
            <>
              <i class="swatch data" /> {labels.reading}{' '}
            </>
          )}
          <i class="swatch compute" /> {labels.computation} <i class="swatch communicate" /> {labels.communication}{' '}
          <i class="swatch rest" /> {labels.rest}
        </span>
        <span class="dim">{labels.longest(<GlossaryTerm of="straggler" />)}</span>
      </p>
      {dataPart >= LIMITING_PART && <p class="small">{labels.dataLimits(Math.round(100 * dataPart))}</p>}
      {ranks.length === 0 ? (
        <p class="dim small">{labels.statisticsLater(run.job.hashEvery)}</p>
      ) : (
        <ul class="plain" tabIndex={ranks.length > UNSCROLLED ? 0 : undefined}>
          {ranks.map((one) => (
            <li
              key={one.rank}
              style={{ '--own': `var(--rank-${rankIdentityOf(one.rank).colour})` }}
              aria-label={labels.laneLabel(
                one.rank,
                formatMs(one.computeMs),
                formatMs(one.communicateMs),
                formatMs(one.stepMs),
              )}
            >
              <RankMark rank={one.rank} />
              <span class="lane">
                <i class="data" style={{ width: part(one.dataMs) }} />
                <i class="compute" style={{ width: part(one.computeMs) }} />
                <i class="communicate" style={{ width: part(one.communicateMs) }} />
                <i
                  class="rest"
                  style={{
                    width: part(Math.max(0, one.stepMs - one.dataMs - one.computeMs - one.communicateMs)),
                  }}
                />
              </span>
              <span class="number small dim">{formatMs(one.stepMs)}</span>
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}
