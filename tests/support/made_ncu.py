"""Tables as ``ncu --csv`` prints them."""
# ruff: noqa: E501 - as the tool prints it

NCU_LONG = """==PROF== Connected to process 77
==PROF== Disconnected
"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC","Section Name","Metric Name","Metric Unit","Metric Value"
"0","77","python","node1","gemm(float *, int)","1","7","(128, 1, 1)","(8, 4, 1)","0","9.0","GPU Speed Of Light Throughput","Duration","us","12.50"
"0","77","python","node1","gemm(float *, int)","1","7","(128, 1, 1)","(8, 4, 1)","0","9.0","GPU Speed Of Light Throughput","DRAM Throughput","%","41.25"
"1","77","python","node1","softmax","1","7","(64, 1, 1)","(1,024, 1, 1)","0","9.0","GPU Speed Of Light Throughput","Duration","ns","1,408"
"""

NCU_WIDE = """"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC","gpu__time_duration.sum","sm__throughput.avg"
"","","","","","","","","","","","nsecond","%"
"0","77","python","node1","gemm","1","7","(128, 1, 1)","(8, 4, 1)","0","9.0","12,500","71.5"
"1","77","python","node1","gemm","1","8","(128, 1, 1)","(8, 4, 1)","1","9.0","13,001","70"
"""
