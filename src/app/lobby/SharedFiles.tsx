/** Shows in the lobby the files that the host shares with all tabs. */
import type { FilesJob } from '../../spec/job.ts';
import type { ManifestFile } from '../../spec/fileManifest.ts';
import { isHost, isSpectating } from '../state/derive.ts';
import { formatBytes, formatPercent } from '../locales/format.ts';
import { sendToEngine } from '../state/store.ts';
import type { TabView } from '../state/view.ts';
import { uiMessages } from '../locales/index.ts';
import { FileDrop } from './FileDrop.tsx';

interface Props {
  job: FilesJob;
  view: TabView;
  files: readonly ManifestFile[];
}

export function SharedFiles({ job, view, files }: Props) {
  const { sharedFiles: labels } = uiMessages.value.lobby;
  if (!isHost(view)) return <FromHost files={files} />;
  if (isSpectating(view)) return <p class="wait small">{labels.watching}</p>;
  return (
    <FileDrop job={job} view={view} onfiles={(chosen) => sendToEngine({ type: 'files', files: chosen })}>
      <Chosen reading={view.reading} files={files} />
    </FileDrop>
  );
}

function FromHost({ files }: { files: readonly ManifestFile[] }) {
  const { sharedFiles: labels } = uiMessages.value.lobby;
  if (files.length === 0) return <p class="dim small">{labels.none}</p>;
  return (
    <div>
      <p class="dim small">{labels.fromHost}</p>
      <ul class="plain small">
        {files.map(({ name, size }) => (
          <li key={name}>
            {name} <span class="dim">{formatBytes(size)}</span>
          </li>
        ))}
      </ul>
    </div>
  );
}

/**
 * Shows the progress of reading the files that this tab shares. If the tab no longer has them,
 * because it was reloaded, a notice says so.
 */
function Chosen({ reading, files }: { reading: TabView['reading']; files: readonly ManifestFile[] }) {
  const { sharedFiles: labels } = uiMessages.value.lobby;
  if (reading === null) return files.length === 0 ? null : <p class="wait small">{labels.lacking}</p>;
  const { bytes, total } = reading;
  if (bytes === total) return <p class="dim small">{labels.go}</p>;
  return (
    <p class="small">
      {labels.reading} <progress aria-label={labels.reading} value={bytes} max={total} />{' '}
      <span class="number">{formatPercent(bytes / total)}</span>
    </p>
  );
}
