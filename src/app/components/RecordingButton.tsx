/** Downloads the flight recording of this rank. */
import { downloadRecording } from '../state/store.ts';
import { uiMessages } from '../locales/index.ts';

export function RecordingButton() {
  return (
    <button type="button" class="quiet" title={uiMessages.value.shell.recordingAbout} onClick={downloadRecording}>
      {uiMessages.value.shell.recording}
    </button>
  );
}
