/** Buttons that download data of a run: curves, timeline and flight recording. */
import { downloadFile, downloadJson } from '../../util/download.ts';
import { renderCurvesPng } from '../charts/curvesPng.ts';
import { describeWorldChange } from '../charts/marks.ts';
import { RecordingButton } from '../components/RecordingButton.tsx';
import type { RunView } from '../state/run.ts';
import { uiMessages } from '../locales/index.ts';
import { createChromeTrace } from './chromeTrace.ts';
import { writeCurvesCsv } from './curvesCsv.ts';
import { ranksTimelineOf } from './timeline.ts';

/** @param records whether this tab is a rank. A spectator has no flight recorder. */
export function ExportButtons({ run, records }: { run: RunView; records: boolean }) {
  const { run: labels } = uiMessages.value;
  const timeline = run.lanes.some((steps) => steps.length > 0);
  return (
    <>
      <button
        type="button"
        class="quiet"
        title={labels.curvesTitle}
        disabled={run.last === null}
        onClick={() => downloadFile('peergrad-curves.csv', writeCurvesCsv(run, describeWorldChange), 'text/csv')}
      >
        {labels.curves}
      </button>
      <button
        type="button"
        class="quiet"
        title={labels.pictureTitle}
        disabled={run.last === null}
        onClick={() => void savePicture()}
      >
        {labels.picture}
      </button>
      <button
        type="button"
        class="quiet"
        title={labels.traceTitle}
        disabled={!timeline}
        onClick={() => downloadJson('peergrad-trace.json', createChromeTrace(ranksTimelineOf(run)))}
      >
        {labels.trace}
      </button>
      {records && <RecordingButton />}
      {/* The recordings open in another tab, because this tab must stay in its room. */}
      <a class="button quiet" href="#recording" target="_blank" rel="noopener">
        {labels.openRecordings}
      </a>
    </>
  );
}

async function savePicture(): Promise<void> {
  const picture = await renderCurvesPng();
  if (picture !== null) downloadFile('peergrad-curves.png', picture);
}
